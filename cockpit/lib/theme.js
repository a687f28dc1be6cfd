// Cockpit's choice of a light or dark style, which its shell keeps in localStorage, and tells its pages of.

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
