//! Log of the process on standard error.
//!
//! Lines go through a [`LineWriter`]. If the reader of standard error stalls, lines are dropped and
//! counted, so that a round never waits for a log line.

use anyhow::Context;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::journald::{self, Prioritized};
use crate::line_writer::{DroppedLines, Flush, LineWriter};
use crate::output::{self, colours};

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Text for people
    #[default]
    Text,
    /// JSON, one object per line
    Json,
}

/// Log of this process. Dropping the value writes the queued lines.
pub(crate) struct Logging {
    _flush: Flush,
    dropped: DroppedLines,
}

impl Logging {
    /// Starts logging for the whole process. `filter` is a level, or `target=level,…`.
    ///
    /// # Errors
    /// If the filter is invalid, logging is already started, or the writer thread cannot be
    /// created.
    pub(crate) fn start(format: Format, filter: &str) -> anyhow::Result<Self> {
        let journal = journald::is_behind(std::io::stderr());
        output::set_lines(format, journal);
        if format == Format::Json {
            std::panic::set_hook(Box::new(|panic| errln!("{panic}")));
        }
        let filter = parsed(filter).map_err(|error| {
            anyhow::anyhow!(
                "--log (or LUCARNE_LOG) `{filter}`: {error}; write a level such as `info`, or \
                 `warn,lucarne_log=debug`"
            )
        })?;
        let (writer, flush) =
            LineWriter::start(std::io::stderr()).context("cannot start logging")?;
        let dropped = writer.dropped();
        let builder = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(writer);
        let started = match format {
            Format::Json => builder
                .json()
                .flatten_event(true)
                .map_event_format(|format| Prioritized { journal, format })
                .try_init(),
            Format::Text => builder
                .with_ansi(colours(&std::io::stderr()))
                .with_target(false)
                .map_event_format(|format| Prioritized { journal, format })
                .try_init(),
        };
        started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))?;
        Ok(Logging {
            _flush: flush,
            dropped,
        })
    }

    /// Registers the metric of dropped lines.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let dropped = self.dropped.clone();
        let about = (
            "lucarne_log_lines_dropped",
            "Log lines dropped because standard error was not read fast enough",
        );
        counter(registry, about, move || dropped.get());
    }
}

/// Parses a filter. A single word must be a level. [`EnvFilter`] also allows the name of a target,
/// but then a misspelled level would disable all other lines.
fn parsed(filter: &str) -> anyhow::Result<EnvFilter> {
    let mut words = filter.split(',').map(str::trim);
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    let unknown =
        words.find(|word| !word.is_empty() && !word.contains(['=', '[']) && !is_level(word));
    if let Some(word) = unknown {
        anyhow::bail!("unknown level `{word}`");
    }
    Ok(EnvFilter::builder().parse(filter)?)
}

/// Registers a counter with this name and help text, whose value comes from `get`.
pub(crate) fn counter(
    registry: &mut Registry,
    (name, help): (&'static str, &'static str),
    get: impl Fn() -> u64 + Send + Sync + 'static,
) {
    registry.register_collector(Box::new(Counter { name, help, get }));
}

struct Counter<F> {
    name: &'static str,
    help: &'static str,
    get: F,
}

impl<F> std::fmt::Debug for Counter<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl<F: Fn() -> u64 + Send + Sync + 'static> Collector for Counter<F> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let counter = ConstCounter::new((self.get)());
        let kind = counter.metric_type();
        counter.encode(encoder.encode_descriptor(self.name, self.help, None, kind)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_level_is_refused() {
        for filter in [
            "info",
            "WARN",
            "off",
            "warn,lucarne_log=debug",
            "error,hyper=info",
            "",
        ] {
            assert!(parsed(filter).is_ok(), "{filter}");
        }
        for (filter, word) in [("verbos", "verbos"), ("warn,debgu", "debgu")] {
            let error = parsed(filter).unwrap_err().to_string();
            assert_eq!(error, format!("unknown level `{word}`"));
        }
        assert!(parsed("lucarne_log=loud").is_err());
    }
}
