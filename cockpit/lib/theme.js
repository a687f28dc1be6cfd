// followTheme applies the light or dark style that the user chose in Cockpit. Its shell keeps the
// choice in localStorage and sends changes to its pages.

export function followTheme() {
  const system = window.matchMedia('(prefers-color-scheme: dark)');
  const apply = (given) => {
    const style = given ?? localStorage.getItem('shell:style') ?? 'auto';
    document.documentElement.classList.toggle('pf-v5-theme-dark', style === 'dark' || (style === 'auto' && system.matches));
  };
  window.addEventListener('storage', (event) => {
    if (event.key === 'shell:style') {
      apply();
    }
  });
  window.addEventListener('cockpit-style', (event) => apply(event.detail?.style));
  system.addEventListener('change', () => apply());
  apply();
}
