//! Export of traces and metrics over OTLP/HTTP.
//!
//! ```text
//! submission → traces → queue (bounded) ─┐
//! /metrics → metrics ────────────────────┴→ protobuf → collector
//! ```
//!
//! A collector that is slow or unreachable costs traces and metrics, and never delays a
//! submission: a full queue drops traces.

mod collector;
mod metrics;
mod protobuf;
mod traces;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lucarne_http::Site;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

use self::collector::Collector;
use self::metrics::Times;
use self::protobuf::Message;
use self::traces::{FinishedTrace, Traces};
use crate::config::OtlpSettings;
use crate::process_metrics;

/// Maximum number of traces in the queue, of about 1 KiB each.
const QUEUE: usize = 2048;
/// Maximum number of traces in a request.
const BATCH: usize = 512;
/// Time in which traces are gathered for a request.
const PAUSE: Duration = Duration::from_millis(200);
/// Time for the last traces and metrics when the server stops.
const FINISH: Duration = Duration::from_millis(500);

lucarne_metrics::metrics! {
    /// Metrics of the export.
    struct ExportMetrics, prefix "lucarne_otlp" {
        dropped: Counter = (
            "spans_dropped",
            "Spans that were not exported, because the collector was slow or unreachable, or \
             rejected the spans"
        );
    }
}

/// An exporter that is not started yet.
pub(crate) struct Exporter<'c>(Option<(&'c OtlpSettings, ExportMetrics)>);

/// A running exporter. It ends when it is dropped.
pub(crate) struct Exporting {
    tasks: JoinSet<()>,
    stop: watch::Sender<()>,
}

impl<'c> Exporter<'c> {
    /// Registers the metric of dropped spans, if an exporter is configured.
    pub(crate) fn register(settings: Option<&'c OtlpSettings>, registry: &mut Registry) -> Self {
        Exporter(settings.map(|settings| {
            let metrics = ExportMetrics::default();
            metrics.describe(registry);
            (settings, metrics)
        }))
    }

    /// Exports the traces of submissions and the metrics of `site` from now on.
    pub(crate) fn start(self, site: &Arc<Site>) -> Exporting {
        let (stop, stopped) = watch::channel(());
        let mut tasks = JoinSet::new();
        if let Some((settings, ExportMetrics { dropped })) = self.0 {
            let collector = Collector::new(settings, stopped.clone());
            let (queue, finished) = mpsc::channel(QUEUE);
            let traces = Traces::new(settings.sampling_ratio, queue, dropped.clone());
            site.trace(Arc::new(traces));
            let traces = export_traces(collector.clone(), finished, dropped, stopped.clone());
            tasks.spawn(traces);
            if let Some(interval) = settings.metrics_interval {
                let site = Arc::clone(site);
                let render = move || site.render_metrics();
                tasks.spawn(export_metrics(collector, render, interval, stopped));
            }
        }
        Exporting { tasks, stop }
    }
}

impl Exporting {
    /// Exports the metrics that `render` returns from now on.
    #[cfg(feature = "load")]
    pub(crate) fn metrics(
        settings: &OtlpSettings,
        render: impl Fn() -> String + Send + 'static,
    ) -> Self {
        let (stop, stopped) = watch::channel(());
        let mut tasks = JoinSet::new();
        if let Some(interval) = settings.metrics_interval {
            let collector = Collector::new(settings, stopped.clone());
            tasks.spawn(export_metrics(collector, render, interval, stopped));
        }
        Exporting { tasks, stop }
    }

    /// Sends the traces in the queue and the last metrics, unless the collector is slow.
    pub(crate) async fn finish(mut self) {
        drop(self.stop);
        let finished = async { while self.tasks.join_next().await.is_some() {} };
        // A collector that is still slow loses the rest.
        let _ = timeout(FINISH, finished).await;
    }
}

/// Exports the traces in the queue until the exporter stops.
async fn export_traces(
    mut collector: Collector,
    mut finished: mpsc::Receiver<FinishedTrace>,
    dropped: Counter,
    mut stopped: watch::Receiver<()>,
) {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let mut stopping = tokio::select! {
            _ = stopped.changed() => true,
            count = finished.recv_many(&mut batch, BATCH) => count == 0,
        };
        if !stopping && batch.len() < BATCH {
            stopping = tokio::select! {
                _ = stopped.changed() => true,
                () = sleep(PAUSE) => false,
            };
        }
        while batch.len() < BATCH
            && let Ok(trace) = finished.try_recv()
        {
            batch.push(trace);
        }
        if batch.is_empty() {
            // The queue is empty, so that nothing is lost.
            if stopping {
                return;
            }
            continue;
        }
        let count: u64 = batch.iter().map(|trace| trace.count).sum();
        let spans = batch.drain(..).map(|trace| trace.spans);
        let spans = spans.fold(Message::default(), |all, spans| all.append(&spans));
        let rejected = collector.export("/v1/traces", &spans).await;
        dropped.inc_by(rejected.map_or(count, |rejected| rejected.min(count)));
    }
}

/// Exports the metrics at an interval, and when the exporter stops.
async fn export_metrics(
    mut collector: Collector,
    render: impl Fn() -> String,
    interval: Duration,
    mut stopped: watch::Receiver<()>,
) {
    let mut due = interval_at(Instant::now() + interval, interval);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let stopping = tokio::select! {
            _ = stopped.changed() => true,
            _ = due.tick() => false,
        };
        let times = Times::between(process_metrics::start(), SystemTime::now());
        let metrics = metrics::encode(&render(), times);
        let metrics = Message::default().messages(2, metrics);
        collector.export("/v1/metrics", &metrics).await;
        if stopping {
            return;
        }
    }
}
