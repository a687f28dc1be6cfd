// A heatmap of a Prometheus histogram, with the axes of Grafana's plots. Its cells are as Grafana draws
// them for "calculate": false: one per bucket and step, in 64 shades. The darkest shade is the lowest
// count, and a count of 0 has no cell.
import React from 'react';
import { formattedValueToString, getValueFormat } from '@grafana/data';
import { AxisPlacement, ScaleDirection, ScaleOrientation } from '@grafana/schema';
import { UPlotChart, UPlotConfigBuilder } from '@grafana/ui';
import { theme } from './frames';

// oranges is d3's scheme of this name, from the highest to the lowest count.
const oranges = ['#fff5eb', '#fee6ce', '#fdd0a2', '#fdae6b', '#fd8d3c', '#f16913', '#d94801', '#a63603', '#7f2704'];
const steps = 64;
const legendHeight = 30;
const labels = 8; // maximum number of bucket labels that fit

export function Heatmap({ panel, frames, run, width, height }) {
  const buckets = bucketsOf(frames);
  const most = Math.max(...buckets.flatMap((bucket) => bucket.counts));
  const times = frames[0].fields[0].values;
  const config = configOf(panel, buckets, most, run);
  return (
    <>
      <UPlotChart config={config} data={[times, times.map(() => null)]} width={width} height={height - legendHeight} />
      <Shades most={most} />
    </>
  );
}

// bucketsOf returns the buckets from the first to the last that is not empty, sorted by bound. Their
// counts are not cumulative.
function bucketsOf(frames) {
  const bound = (frame) => Number(frame.fields[1].labels.le.replace('Inf', 'Infinity'));
  const sorted = [...frames].sort((a, b) => bound(a) - bound(b));
  const all = sorted.map((frame, i) => ({
    bound: bound(frame),
    counts: frame.fields[1].values.map((count, at) => Math.max(0, count - (i > 0 ? sorted[i - 1].fields[1].values[at] : 0))),
  }));
  const isFilled = ({ counts }) => counts.some((count) => count > 0.5);
  return all.slice(all.findIndex(isFilled), all.findLastIndex(isFilled) + 1);
}

function shade(count, most) {
  const step = Math.round((1 - count / most) * (steps - 1)) / (steps - 1);
  const at = step * (oranges.length - 1);
  const [low, high] = [oranges[Math.floor(at)], oranges[Math.ceil(at)]];
  const mix = [1, 3, 5].map((i) => {
    const [a, b] = [low, high].map((colour) => parseInt(colour.slice(i, i + 2), 16));
    return Math.round(a + (b - a) * (at - Math.floor(at)));
  });
  return `rgb(${mix.join()})`;
}

function configOf(panel, buckets, most, run) {
  const config = new UPlotConfigBuilder('utc');
  const range = [Date.parse(run.From), Date.parse(run.To)];
  const format = getValueFormat(panel.options.yAxis?.unit ?? 'short');
  const label = (i) => (buckets[i]?.bound === Infinity ? '+Inf' : formattedValueToString(format(buckets[i]?.bound)));
  config.addScale({ scaleKey: 'x', isTime: true, orientation: ScaleOrientation.Horizontal, direction: ScaleDirection.Right, range: () => range });
  config.addScale({
    scaleKey: 'y', orientation: ScaleOrientation.Vertical, direction: ScaleDirection.Up, range: () => [0, buckets.length],
  });
  config.addAxis({ scaleKey: 'x', isTime: true, placement: AxisPlacement.Bottom, timeZone: 'utc', theme });
  config.addAxis({
    scaleKey: 'y', placement: AxisPlacement.Left, theme, size: 64, splits: buckets.map((_, i) => i + 0.5), grid: { show: false }, ticks: { show: false },
    values: (_, splits) => splits.map((split, i) => (i % Math.ceil(buckets.length / labels) === 0 ? label(Math.floor(split)) : '')),
  });
  config.addSeries({ scaleKey: 'y', theme, show: true, pathBuilder: () => null, pointsBuilder: () => null });
  config.addHook('draw', (u) => drawCells(u, buckets, most, run));
  return config;
}

function drawCells(u, buckets, most, run) {
  const times = u.data[0];
  buckets.forEach((bucket, row) => {
    const [bottom, top] = [u.valToPos(row, 'y', true), u.valToPos(row + 1, 'y', true)];
    bucket.counts.forEach((count, i) => {
      if (count < 0.5) {
        return;
      }
      const left = Math.max(u.bbox.left, u.valToPos(times[i] - run.Step * 1000, 'x', true));
      u.ctx.fillStyle = shade(count, most);
      u.ctx.fillRect(left, top + 1, u.valToPos(times[i], 'x', true) - left - 1, bottom - top - 2);
    });
  });
}

// Shades is the legend.
function Shades({ most }) {
  const colours = Array.from({ length: steps }, (_, i) => shade((i / (steps - 1)) * most, most));
  const text = { color: theme.colors.text.secondary, fontSize: 12 };
  return (
    <div style={{ display: 'flex', alignItems: 'center', gap: 8, height: legendHeight, paddingLeft: 64 }}>
      <span style={text}>1</span>
      <div style={{ width: 200, height: 8, background: `linear-gradient(to right, ${colours.join()})` }} />
      <span style={text}>{Math.round(most)}</span>
    </div>
  );
}
