use std::fs;

use anyhow::{Context, Result};

/// The resources that a process has used so far, from Linux's `/proc`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// CPU time of all threads, user and system, in microseconds (counted in ticks of 10,000).
    pub cpu_us: u64,
    /// Memory in use (VmRSS), in bytes.
    pub rss: u64,
    /// Maximum memory so far (VmHWM), in bytes.
    pub peak_rss: u64,
    /// Number of bytes written to storage (`write_bytes`).
    pub written: u64,
}

/// Returns the resources that the process `pid` has used so far.
///
/// # Errors
/// If the process does not exist or belongs to another user.
pub fn usage(pid: u32) -> Result<Usage> {
    let read = |file: &str| {
        let path = format!("/proc/{pid}/{file}");
        fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
    };
    let (stat, status, io) = (read("stat")?, read("status")?, read("io")?);
    let field = |text: &str, name: &str| -> u64 {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        let number = value.and_then(|value| value.split_whitespace().next());
        number.and_then(|n| n.parse().ok()).unwrap_or(0)
    };
    Ok(Usage {
        cpu_us: ticks(&stat).context("/proc/<pid>/stat has fewer fields than expected")? * 10_000,
        rss: field(&status, "VmRSS:") * 1024,
        peak_rss: field(&status, "VmHWM:") * 1024,
        written: field(&io, "write_bytes:"),
    })
}

/// Returns utime + stime. The second field is the command in parentheses, and may contain spaces
/// and parentheses. The other fields are therefore counted from the last parenthesis.
fn ticks(stat: &str) -> Option<u64> {
    let after_command = &stat[stat.rfind(')')? + 1..];
    let mut times = after_command.split_whitespace().skip(11);
    let mut next = || times.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_process_has_used_something() {
        let cpu = || usage(std::process::id()).unwrap().cpu_us;
        let before = cpu();
        let start = std::time::Instant::now();
        while cpu() < before + 30_000 {
            // On a busy machine it may take a while to use that much CPU time.
            assert!(start.elapsed().as_secs() < 60, "no CPU time is counted");
        }
        let usage = usage(std::process::id()).unwrap();
        assert!(usage.rss > 0 && usage.peak_rss >= usage.rss);
    }

    #[test]
    fn odd_command_names_do_not_confuse() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 0 1 2 3 4 250 50 0 0 20 0 1";
        assert_eq!(ticks(stat), Some(300));
    }
}
