//! Remains of tests on the machine, such as processes, found in `/proc`. On systems other than
//! Linux, this module finds nothing.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// The environment variable that names the test in each of its processes.
pub(super) const MARK: &str = "LUCARNE_TEST";

/// Mounts, named network namespaces and loop devices of the machine.
#[derive(Default)]
pub(super) struct Machine(BTreeSet<String>);

impl Machine {
    /// Returns the present mounts, namespaces and loop devices.
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

    /// Returns the remains that are not in `before`.
    pub(super) fn since(self, before: &Self) -> Vec<String> {
        self.0.difference(&before.0).cloned().collect()
    }
}

/// Ends the processes whose environment has the mark and that are still there after
/// `grace`. Returns their command lines.
pub(super) fn end_marked(mark: &str, grace: Duration) -> Vec<String> {
    if marked(mark).is_empty() {
        return Vec::new();
    }
    thread::sleep(grace);
    let processes = marked(mark);
    let lines = processes.iter().map(|pid| command_line(*pid)).collect();
    for pid in processes {
        // The process may have ended before.
        let mut kill = Command::new("kill");
        let kill = kill.args(["-KILL", &pid.to_string()]);
        let _ = kill.stderr(Stdio::null()).status();
    }
    lines
}

/// Processes whose environment has the mark.
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

/// The stacks of all processes whose environment has the mark: of a hung test and of
/// the servers that it waits for.
pub(super) fn stacks(mark: &str) -> String {
    let stack = |pid| format!("\n{}:\n{}", command_line(pid), stack(pid));
    marked(mark).into_iter().map(stack).collect()
}

/// Returns the stacks of a process's threads from gdb. Without gdb, returns the names of the
/// threads, and the kernel functions where they wait.
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

/// The content of a file, empty if it cannot be read: a process may have ended.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The names in a directory; none if it cannot be read.
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
    /// line. After `spawn`, the child may still have the environment and command line of this
    /// process.
    fn sleeping(mark: &str) -> Child {
        let mut sleep = Command::new("sleep");
        let mut child = sleep.arg("600").env(MARK, mark).spawn().unwrap();
        let pid = child.id();
        let end = Instant::now() + Duration::from_secs(30);
        while !marked(mark).contains(&pid) || command_line(pid) != "process sleep 600" {
            if Instant::now() > end {
                let _ = child.kill();
                let _ = child.wait();
                panic!("{}: not started within 30 s", command_line(pid));
            }
            // The polling interval: the loop ends with the event.
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
