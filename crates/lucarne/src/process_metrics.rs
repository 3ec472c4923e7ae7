//! Metrics of the process and of its build. The metrics of the process have the names that
//! Prometheus's client libraries use.

use std::fmt;
use std::fs;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::version::{COMMIT, TARGET, VERSION};

/// Start of the process.
static START: LazyLock<SystemTime> = LazyLock::new(SystemTime::now);

/// Records the start of the process.
pub(crate) fn begin() {
    LazyLock::force(&START);
}

/// Returns the start of the process, at which all counters were zero.
#[cfg(feature = "otlp")]
pub(crate) fn start() -> SystemTime {
    *START
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    version: &'static str,
    commit: &'static str,
    target: &'static str,
}

/// Adds the metrics of process and build.
pub(crate) fn register(registry: &mut Registry) {
    let build = Family::<Build, Gauge>::default();
    let labels = Build {
        version: VERSION,
        commit: COMMIT,
        target: TARGET,
    };
    build.get_or_create_owned(&labels).set(1);
    let of_product = registry.sub_registry_with_prefix("lucarne");
    of_product.register("build_info", "Build of this program, always 1", build);
    registry.register_collector(Box::new(Process));
}

/// The process, as the operating system describes it at the time of a scrape.
#[derive(Debug)]
struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counter = ConstCounter::new(cpu_time().as_secs_f64());
        let metric = encoder.encode_descriptor(
            "process_cpu",
            "CPU time of all threads, user and system",
            Some(&Unit::Seconds),
            counter.metric_type(),
        )?;
        counter.encode(metric)?;
        let start = START.duration_since(UNIX_EPOCH).unwrap_or_default();
        let gauge = ConstGauge::new(start.as_secs_f64());
        let metric = encoder.encode_descriptor(
            "process_start_time",
            "Unix time of the start of the process",
            Some(&Unit::Seconds),
            gauge.metric_type(),
        )?;
        gauge.encode(metric)?;
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        for (name, help, unit, value) in [
            (
                "process_resident_memory",
                "Physical memory in use",
                Some(&Unit::Bytes),
                memory(&status, "VmRSS:"),
            ),
            (
                "process_virtual_memory",
                "Size of the address space",
                Some(&Unit::Bytes),
                memory(&status, "VmSize:"),
            ),
            (
                "process_open_fds",
                "Open file descriptors",
                None,
                open_descriptors(),
            ),
            (
                "process_max_fds",
                "Limit of open file descriptors",
                None,
                getrlimit(Resource::Nofile).current,
            ),
        ] {
            // The system does not know the value, or there is no limit.
            let Some(value) = value else { continue };
            let gauge = ConstGauge::new(value);
            let metric = encoder.encode_descriptor(name, help, unit, gauge.metric_type())?;
            gauge.encode(metric)?;
        }
        Ok(())
    }
}

fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// Returns a size in `/proc/self/status`, in bytes.
fn memory(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = value.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

fn open_descriptors() -> Option<u64> {
    // On Linux 6.2 and newer, the size of this directory is the number of open descriptors.
    match fs::metadata("/proc/self/fd").ok()?.len() {
        0 => {
            let all = fs::read_dir("/proc/self/fd").ok()?.count() as u64;
            // One of the open descriptors belongs to this read of the directory.
            Some(all.saturating_sub(1))
        }
        number => Some(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_described() {
        let mut registry = Registry::default();
        register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let line = line.unwrap_or_else(|| panic!("no {name} in\n{text}"));
            line.trim().parse().unwrap()
        };
        assert!(value("process_cpu_seconds_total ") > 0.0);
        assert!(value("process_resident_memory_bytes ") > 1e6);
        assert!(value("process_virtual_memory_bytes ") > 1e6);
        assert!(value("process_open_fds ") > 2.0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let age = now.as_secs_f64() - value("process_start_time_seconds ");
        assert!((0.0..86_400.0).contains(&age), "{age}");
        assert!(text.contains("lucarne_build_info{version=\""), "{text}");
    }
}
