// The dashboard as a page: Grafana's grid of 24 columns, its panels, and a note about what drew it.
import React from 'react';
import { createRoot } from 'react-dom/client';
import { ThemeContext } from '@grafana/data';
import { GlobalStyles } from '@grafana/ui';
import '@fontsource/inter/400.css';
import '@fontsource/inter/500.css';
import board from '../../contrib/grafana/node-dns.json';
import run from 'run.json';
import { theme } from './frames';
import { Panel } from './panels';

const drawnBy = 'Drawn by scripts/dashboard-png with the components of @grafana/ui, not by a Grafana: a node of test/netns in TestDashboardRun, scraped by a real Prometheus.';
const width = 1440;
const gap = 8;
const margin = 16;
const rowHeight = 30;
const column = (width - 2 * margin + gap) / 24;

function Placed({ panel }) {
  const { x, y, w, h } = panel.gridPos;
  const box = { width: w * column - gap, height: h * (rowHeight + gap) - gap };
  return (
    <div style={{ position: 'absolute', left: x * column, top: y * (rowHeight + gap), ...box }}>
      {panel.type === 'row' ? <h6 style={{ margin: 0, lineHeight: `${rowHeight}px` }}>⌄ {panel.title}</h6> : <Panel {...{ panel, run, ...box }} />}
    </div>
  );
}

function Variable({ label, value }) {
  const box = { border: `1px solid ${theme.colors.border.weak}`, padding: '4px 8px', background: theme.colors.background.primary };
  return (
    <span>
      <span style={{ ...box, background: theme.colors.background.secondary, fontWeight: 500 }}>{label}</span>
      <span style={box}>{value}</span>
    </span>
  );
}

function Head() {
  const time = (text) => text.slice(0, 19).replace('T', ' ');
  return (
    <div style={{ display: 'flex', gap: 12, alignItems: 'center', height: 48, fontSize: 12 }}>
      <h4 style={{ margin: 0 }}>{board.title}</h4>
      {board.templating.list.map(({ name, type, label }) => <Variable key={name} label={label} value={type === 'datasource' ? 'Prometheus' : 'All'} />)}
      <span style={{ marginLeft: 'auto' }}>{`${time(run.From)} to ${time(run.To)} UTC`}</span>
    </div>
  );
}

function Page() {
  const rows = Math.max(...board.panels.map(({ gridPos: { y, h } }) => y + h));
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <div style={{ width, padding: `0 ${margin}px`, background: theme.colors.background.canvas, boxSizing: 'border-box' }}>
        <Head />
        <div style={{ position: 'relative', height: rows * (rowHeight + gap) }}>
          {board.panels.map((panel) => <Placed key={panel.id} panel={panel} />)}
        </div>
        <div style={{ height: 32, lineHeight: '32px', fontSize: 12, color: theme.colors.text.secondary }}>{drawnBy}</div>
      </div>
    </ThemeContext.Provider>
  );
}

createRoot(document.getElementById('root')).render(<Page />);
