//! The environment of a run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Machine and process of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Environment {
    /// Host name.
    pub host: String,
    /// Name of the operating system, for example `Linux`.
    pub system: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Model of the processor, or its architecture if the kernel does not report the model.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: u32,
    /// Memory of the machine in bytes; 0 if unknown.
    pub memory: u64,
    /// Version of the load tester.
    pub version: String,
    /// Number of worker threads that execute iterations.
    pub threads: u32,
    /// Processor time of this process from the start of the load to the end of the last iteration,
    /// in seconds.
    pub process_cpu: Option<f64>,
    /// Peak resident memory of this process, in bytes.
    pub peak_memory: Option<u64>,
}

impl Environment {
    /// Describes this machine and this process.
    pub(crate) fn here(version: &str, threads: usize) -> Self {
        let system = rustix::system::uname();
        let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        Environment {
            host: text(system.nodename()),
            system: text(system.sysname()),
            kernel: text(system.release()),
            processor: field("/proc/cpuinfo", "model name")
                .unwrap_or_else(|| text(system.machine())),
            cores: std::thread::available_parallelism().map_or(0, |cores| cores.get() as u32),
            memory: kilobytes("/proc/meminfo", "MemTotal").unwrap_or(0),
            version: version.into(),
            threads: threads as u32,
            process_cpu: None,
            peak_memory: None,
        }
    }
}

/// Returns the processor time that this process has used.
pub(crate) fn process_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

/// Returns the peak resident memory of this process in bytes.
pub(crate) fn peak_memory() -> Option<u64> {
    kilobytes("/proc/self/status", "VmHWM")
}

fn kilobytes(file: &str, name: &str) -> Option<u64> {
    let value = field(file, name)?;
    Some(value.strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Returns the value after `name:` in a text file of the kernel, if there is one.
fn field(file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_where_it_is() {
        let here = Environment::here("1.2.3", 2);
        assert!(here.cores > 0 && !here.system.is_empty() && !here.processor.is_empty());
        assert_eq!((here.version.as_str(), here.threads), ("1.2.3", 2));
        assert!(process_cpu() > Duration::ZERO);
    }
}
