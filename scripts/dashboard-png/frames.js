// Converts answers of Prometheus to the data frames that Grafana's components accept.
import { createTheme, FieldColorModeId, FieldType, getDisplayProcessor, ThresholdsMode, toDataFrame } from '@grafana/data';

export const theme = createTheme({ colors: { mode: 'dark' } });

// Grafana's defaults for options that the dashboard does not set.
const lines = {
  drawStyle: 'line', lineInterpolation: 'linear', lineWidth: 1, fillOpacity: 0, gradientMode: 'none', spanNulls: false, showPoints: 'auto',
  pointSize: 5, stacking: { mode: 'none', group: 'A' }, axisPlacement: 'auto', axisLabel: '', axisColorMode: 'text',
  scaleDistribution: { type: 'linear' }, hideFrom: { tooltip: false, viz: false, legend: false }, thresholdsStyle: { mode: 'off' },
};
const thresholds = { mode: ThresholdsMode.Absolute, steps: [{ value: -Infinity, color: 'green' }, { value: 80, color: 'red' }] };

// framesOf returns a panel's frames: one per series, in the order in which Grafana assigns colors.
export function framesOf(panel, run) {
  const frames = [];
  for (const target of panel.targets) {
    for (const series of run.Panels[panel.id][target.refId].result) {
      frames.push(frameOf(panel, target, series, run, frames.length));
    }
  }
  return frames;
}

function frameOf(panel, target, series, run, index) {
  const isStat = panel.type === 'stat';
  const defaults = panel.fieldConfig.defaults;
  const config = {
    color: { mode: isStat ? FieldColorModeId.Thresholds : FieldColorModeId.PaletteClassic },
    thresholds: thresholdsOf(defaults),
    ...withoutThresholds(defaults),
    custom: { ...lines, ...defaults.custom },
    displayNameFromDS: legend(target.legendFormat, series.metric),
  };
  const frame = toDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: series.values.map(([at]) => at * 1000), config: { interval: run.Step * 1000 } },
      { name: 'Value', type: FieldType.number, values: series.values.map(([, value]) => number(value)), labels: series.metric, config },
    ],
  });
  for (const field of frame.fields) {
    field.state = { seriesIndex: index };
    field.display = getDisplayProcessor({ field, theme, timeZone: 'utc' });
  }
  return frame;
}

// thresholdsOf converts thresholds. null in a dashboard's JSON means every value below the next step.
function thresholdsOf(defaults) {
  const given = defaults.thresholds ?? thresholds;
  return { ...given, steps: given.steps.map((step) => ({ ...step, value: step.value ?? -Infinity })) };
}

function withoutThresholds({ thresholds: _, ...rest }) {
  return rest;
}

function number(text) {
  const value = Number(text.replace('Inf', 'Infinity'));
  return Number.isNaN(value) ? null : value;
}

function legend(format, labels) {
  if (format) {
    return format.replace(/{{\s*(.+?)\s*}}/g, (_, name) => labels[name] ?? '');
  }
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${value}"`);
  return pairs.length > 0 ? `{${pairs.join(', ')}}` : 'Value';
}
