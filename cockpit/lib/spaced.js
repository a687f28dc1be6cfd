// spaced returns a function that calls action at most once per rest, in milliseconds: at once if it
// can, otherwise as soon as it can. Calls in between count as one.
export function spaced(action, rest) {
  let isResting = false;
  let isWanted = false;
  const call = () => {
    if (isResting) {
      isWanted = true;
      return;
    }
    isResting = true;
    isWanted = false;
    setTimeout(() => {
      isResting = false;
      if (isWanted) {
        call();
      }
    }, rest);
    action();
  };
  return call;
}
