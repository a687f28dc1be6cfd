// A panel of each type in the dashboard, drawn by Grafana's own components. Its heatmap is not
// published as a component, so heatmap.jsx draws that.
import React from 'react';
import { dateTime, fieldReducers } from '@grafana/data';
import { BigValue, PanelChrome, TimeSeries } from '@grafana/ui';
import { framesOf, theme } from './frames';
import { Heatmap } from './heatmap';

const kinds = { stat: Stat, timeseries: Lines, heatmap: Heatmap };

export function Panel({ panel, run, width, height }) {
  const Kind = kinds[panel.type];
  const frames = framesOf(panel, run);
  return (
    <PanelChrome title={panel.title} width={width} height={height}>
      {(innerWidth, innerHeight) => <Kind {...{ panel, run, frames, width: innerWidth, height: innerHeight }} />}
    </PanelChrome>
  );
}

function Lines({ panel, run, frames, width, height }) {
  const [from, to] = [dateTime(run.From), dateTime(run.To)];
  return (
    <TimeSeries
      frames={frames} timeRange={{ from, to, raw: { from, to } }} timeZone="utc"
      width={width} height={height} legend={{ calcs: [], ...panel.options.legend }} options={panel.options}
    />
  );
}

// Stat shows the last value of each series, side by side.
function Stat({ panel, frames, width, height }) {
  const { colorMode, graphMode, textMode } = panel.options;
  const each = height / frames.length;
  return frames.map((frame, i) => {
    const field = frame.fields[1];
    const last = fieldReducers.get('lastNotNull').reduce(field, true, true).lastNotNull;
    const value = { ...field.display(last), title: frames.length > 1 || textMode !== 'auto' ? field.config.displayNameFromDS : undefined };
    return <BigValue key={i} {...{ value, theme, width, height: each, colorMode, graphMode, textMode, justifyMode: 'auto' }} />;
  });
}
