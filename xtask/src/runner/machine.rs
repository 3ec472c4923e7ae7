//! Traces that tests can leave on the machine, read from `/proc`. On systems other than Linux,
//! nothing is found.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Environment variable that names the test in each of its processes.
pub(super) const MARK: &str = "LUCARNE_TEST";

/// Mounts, named network namespaces and loop devices of the machine.
#[derive(Default)]
pub(super) struct Machine(BTreeSet<String>);

impl Machine {
    /// Returns the mounts, namespaces and loop devices that exist now.
    pub(super) fn now() -> Self {
        let mut found = BTreeSet::new();
        for line in read("/proc/self/mounts").lines() {
            let place = line.split(' ').nth(1).unwrap_or_default();
            found.insert(format!("mount {place}"));
        }
        for name in names("/run/netns") {
            found.insert(format!("network namespace {name}"));
        }
        for device in names("/sys/block") {
            let file = read(&format!("/sys/block/{device}/loop/backing_file"));
            if !file.is_empty() {
                found.insert(format!("loop device {device} of {}", file.trim()));
            }
        }
        Self(found)
    }

    /// Returns the names that are not in `before`.
    pub(super) fn since(self, before: &Self) -> Vec<String> {
        self.0.difference(&before.0).cloned().collect()
    }
}

/// Kills the processes whose environment has the mark and that still exist after `grace`. Returns
/// their command lines.
pub(super) fn end_marked(mark: &str, grace: Duration) -> Vec<String> {
    if marked(mark).is_empty() {
        return Vec::new();
    }
    thread::sleep(grace);
    let processes = marked(mark);
    let lines = processes.iter().map(|pid| command_line(*pid)).collect();
    for pid in processes {
        // The process may already have ended.
        let mut kill = Command::new("kill");
        let kill = kill.args(["-KILL", &pid.to_string()]);
        let _ = kill.stderr(Stdio::null()).status();
    }
    lines
}

/// Returns the processes whose environment has the mark.
fn marked(mark: &str) -> Vec<u32> {
    let entry = format!("{MARK}={mark}");
    let has = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|it| it == entry.as_bytes())
    };
    let numbers = names("/proc")
        .into_iter()
        .filter_map(|name| name.parse().ok());
    numbers.filter(has).collect()
}

fn command_line(pid: u32) -> String {
    let line = read(&format!("/proc/{pid}/cmdline")).replace('\0', " ");
    format!("process {}", line.trim())
}

/// Returns the stacks of all processes whose environment has the mark: a hung test and the servers
/// that it waits for.
pub(super) fn stacks(mark: &str) -> String {
    let stack = |pid| format!("\n{}:\n{}", command_line(pid), stack(pid));
    marked(mark).into_iter().map(stack).collect()
}

/// Returns the stacks of a process's threads: from gdb if it is installed, otherwise the names of
/// the threads with the functions of the kernel in which they wait.
fn stack(pid: u32) -> String {
    let pid = pid.to_string();
    let mut gdb = Command::new("timeout");
    gdb.args(["30", "gdb", "-batch", "-nx", "-p", &pid, "-ex"])
        .arg("thread apply all bt 20")
        .stdin(Stdio::null());
    let output = gdb.output().map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&output);
    let frames = text.lines().filter(|line| line.starts_with(['#', 'T']));
    let frames: String = frames.flat_map(|line| [line, "\n"]).collect();
    if !frames.is_empty() {
        return frames;
    }
    let thread = |task: &String| {
        let of = |file: &str| read(&format!("/proc/{pid}/task/{task}/{file}"));
        format!("{}: {}\n", of("comm").trim(), of("wchan").trim())
    };
    let tasks = names(&format!("/proc/{pid}/task"));
    tasks.iter().map(thread).collect()
}

/// Returns the contents of a file; an empty text if the file cannot be read, because a process may
/// have ended.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Returns the names in a directory; no names if the directory cannot be read.
fn names(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Child;
    use std::time::Instant;

    use super::*;

    /// Starts `sleep 600` with the mark, and waits until `/proc` has its environment and command
    /// line: immediately after `spawn`, `/proc` may still have those of this process.
    fn sleeping(mark: &str) -> Child {
        let mut sleep = Command::new("sleep");
        let child = sleep.arg("600").env(MARK, mark).spawn();
        let mut child = child.expect("starting sleep");
        let pid = child.id();
        let end = Instant::now() + Duration::from_secs(30);
        while !marked(mark).contains(&pid) || command_line(pid) != "process sleep 600" {
            if Instant::now() > end {
                let _ = child.kill();
                let _ = child.wait();
                panic!("{}: not started within 30 s", command_line(pid));
            }
            // A pause between two checks: the loop ends with the event.
            thread::sleep(Duration::from_millis(1));
        }
        child
    }

    #[test]
    fn a_process_that_a_test_left_is_named_and_ended() {
        let mark = format!("left by a test of the runner {}", std::process::id());
        let mut child = sleeping(&mark);
        assert_eq!(end_marked(&mark, Duration::ZERO), ["process sleep 600"]);
        assert!(!child.wait().unwrap().success());
        assert_eq!(end_marked(&mark, Duration::ZERO), [""; 0]);
    }

    #[test]
    fn the_threads_of_a_hung_process_are_named() {
        let mark = format!("hung in a test of the runner {}", std::process::id());
        let mut child = sleeping(&mark);
        let stacks = stacks(&mark);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(stacks.contains("sleep 600:\n"), "{stacks}");
        assert!(stacks.lines().count() > 2, "{stacks}");
    }
}
