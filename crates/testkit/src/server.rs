use std::{
    ffi::OsString,
    fs::File,
    io::{BufRead, BufReader, Read},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU16, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use crate::wait::pause;

/// Number of ports for one test program, below the range that the system assigns (32768 and above
/// on Linux).
const PORTS: u16 = 500;
const FIRST_PORT: u16 = 20_000;
const PROGRAMS: u16 = 24;

/// Returns a port of 127.0.0.1 without a listener, which no other test of this machine gets.
/// Programs run concurrently, so a port that the system assigned, and that was released for a
/// server, could be assigned to another program in between.
///
/// # Panics
/// If there is no free port.
pub fn free_port() -> u16 {
    static MINE: OnceLock<Option<(File, u16)>> = OnceLock::new();
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).and_then(|it| it.local_addr());
    let mine = MINE.get_or_init(claim_ports);
    let ports = mine
        .iter()
        .flat_map(|(_, first)| (0..PORTS).map(move |_| first + NEXT.fetch_add(1, Relaxed) % PORTS));
    // Uses ports of the system if so many programs run that all ranges are in use.
    let mut ports = ports.chain([0]);
    match ports.find_map(|port| free(port).ok()) {
        Some(address) => address.port(),
        None => panic!("no free port on 127.0.0.1"),
    }
}

/// Locks a range of ports for the lifetime of this process.
fn claim_ports() -> Option<(File, u16)> {
    let directory = std::env::temp_dir().join("lucarne-test-ports");
    std::fs::create_dir_all(&directory).ok()?;
    (0..PROGRAMS).find_map(|number| {
        let first = FIRST_PORT + number * PORTS;
        let file = File::create(directory.join(first.to_string())).ok()?;
        file.try_lock().ok()?;
        Some((file, first))
    })
}

/// A command that starts a server.
#[derive(Clone, Debug)]
pub struct Launch {
    binary: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    core: Option<usize>,
    patience: Duration,
}

impl Launch {
    /// Creates a command for this binary, without arguments. Tests pass
    /// `env!("CARGO_BIN_EXE_lucarne")`.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self {
            binary: binary.into(),
            args: Vec::new(),
            env: Vec::new(),
            directory: None,
            core: None,
            patience: Duration::from_secs(30),
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sets the working directory.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Runs the process on this core only (`taskset`).
    pub fn pin(mut self, core: Option<usize>) -> Self {
        self.core = core;
        self
    }

    /// Sets the timeout of [`start`](Self::start) (default: 30 s).
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Returns the same command, started by `program` with `args`. The program must replace itself
    /// by the command.
    pub(crate) fn through<'a>(
        mut self,
        program: &str,
        args: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let binary = std::mem::replace(&mut self.binary, program.into());
        let args = args.into_iter().map(OsString::from);
        let args = args.chain([binary.into()]);
        self.args.splice(0..0, args);
        self
    }

    fn command(&self) -> Command {
        let mut command = match self.core {
            None => Command::new(&self.binary),
            Some(core) => {
                // taskset replaces itself with the binary, so that the pid is the server's.
                let mut command = Command::new("taskset");
                command.args(["-c", &core.to_string()]).arg(&self.binary);
                command
            }
        };
        command.args(&self.args).envs(self.env.iter().cloned());
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }

    /// Returns the same command, which stops itself (SIGSTOP) before it starts.
    pub(crate) fn stopped_at_first(&self) -> Command {
        let plain = self.command();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", r#"kill -STOP $$; exec "$0" "$@""#]);
        command.arg(plain.get_program()).args(plain.get_args());
        command.envs(self.env.iter().cloned());
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }

    /// Runs a command that ends by itself.
    ///
    /// # Errors
    /// If the binary cannot be started.
    pub fn run(&self) -> Result<std::process::Output> {
        let mut command = self.command();
        command.stdin(Stdio::null());
        command
            .output()
            .with_context(|| format!("cannot run {command:?}"))
    }

    /// Starts the process without waiting.
    ///
    /// # Errors
    /// If the binary cannot be started.
    pub fn spawn(&self) -> Result<Server> {
        let mut command = self.command();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let output = Output::default();
        let readers = [
            child.stdout.take().map(|pipe| output.collect(pipe)),
            child.stderr.take().map(|pipe| output.collect(pipe)),
        ];
        Ok(Server {
            child,
            output,
            readers: readers.into_iter().flatten().collect(),
        })
    }

    /// Starts the process, and waits until it accepts connections at `address`.
    ///
    /// # Errors
    /// If the process ends first, or does not accept connections in time; the message has the
    /// output of the process.
    pub fn start(&self, address: SocketAddr) -> Result<Server> {
        let mut server = self.spawn()?;
        let deadline = Instant::now() + self.patience;
        while !answers(address) {
            if let Some(status) = server.try_wait()? {
                bail!(
                    "the server ended ({status}) before it accepted a connection:\n{}",
                    server.output()
                );
            }
            if Instant::now() > deadline {
                bail!(
                    "no server at {address} after {:?}:\n{}",
                    self.patience,
                    server.output()
                );
            }
            pause();
        }
        Ok(server)
    }
}

/// A running server: a real process, killed when this value is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    output: Output,
    readers: Vec<JoinHandle<()>>,
}

impl Server {
    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the output so far: standard output and standard error in the order of reading.
    pub fn output(&self) -> String {
        self.output.text()
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        if let Some(status) = self.try_wait()? {
            bail!(
                "the server has already ended ({status}):\n{}",
                self.output()
            );
        }
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal)
            .with_context(|| format!("cannot send {signal:?} to process {}", self.child.id()))
    }

    /// Sends SIGTERM and returns the exit status. Kills the process if it takes longer than
    /// `patience`.
    ///
    /// # Errors
    /// If the process did not end in time.
    pub fn stop(&mut self, patience: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.wait(patience)
    }

    /// Sends SIGKILL, which has the effect of a power failure on everything but the disk.
    ///
    /// # Errors
    /// Only if the system refuses.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        self.child.kill().context("cannot kill the server")?;
        let status = self.child.wait()?;
        self.finish_reading();
        Ok(status)
    }

    /// Returns the exit status if the process has ended.
    ///
    /// # Errors
    /// Only if the system refuses.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        if status.is_some() {
            self.finish_reading();
        }
        Ok(status)
    }

    /// Waits until the process ends.
    ///
    /// # Errors
    /// If the process did not end in time, and was killed; the message has the output of the
    /// process.
    pub fn wait(&mut self, patience: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                self.kill()?;
                bail!(
                    "the server did not end within {patience:?}:\n{}",
                    self.output()
                );
            }
            pause();
        }
    }

    /// Waits until the process has printed a line with `text`, and returns that line.
    ///
    /// # Errors
    /// If the process ends first, or after `patience`.
    pub fn wait_for_output(&mut self, text: &str, patience: Duration) -> Result<String> {
        let deadline = Instant::now() + patience;
        loop {
            let ended = self.try_wait()?.is_some();
            if let Some(line) = self.output().lines().find(|line| line.contains(text)) {
                return Ok(line.to_owned());
            }
            if ended || Instant::now() > deadline {
                bail!("the server never printed {text:?}:\n{}", self.output());
            }
            pause();
        }
    }

    fn finish_reading(&mut self) {
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.finish_reading();
    }
}

/// The output of a process, collected by threads so that its pipes never fill.
#[derive(Clone, Debug, Default)]
pub(crate) struct Output(Arc<Mutex<String>>);

impl Output {
    /// Maximum length of the stored output in bytes, because a test may run for hours.
    const MOST: usize = 4 << 20;

    pub(crate) fn collect(&self, pipe: impl Read + Send + 'static) -> JoinHandle<()> {
        let output = self.clone();
        thread::spawn(move || {
            let mut lines = BufReader::new(pipe);
            let mut line = Vec::new();
            while matches!(lines.read_until(b'\n', &mut line), Ok(1..)) {
                let mut text = output.0.lock().unwrap_or_else(PoisonError::into_inner);
                if text.len() > Self::MOST {
                    text.clear();
                }
                text.push_str(&String::from_utf8_lossy(&line));
                line.clear();
            }
        })
    }

    pub(crate) fn text(&self) -> String {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Returns `true` if a server accepts connections at this address. A socket that is connected to
/// itself does not count: the kernel may choose the port without a listener as the local port.
fn answers(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, Duration::from_secs(1))
        .is_ok_and(|stream| stream.local_addr().ok() != Some(address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EVENT_TIMEOUT;

    fn shell(script: &str) -> Launch {
        Launch::new("/bin/sh").args(["-c", script])
    }

    #[test]
    fn output_and_status_are_captured() {
        let mut server = shell("echo out; echo err >&2; exit 3").spawn().unwrap();
        let status = server.wait(EVENT_TIMEOUT).unwrap();
        assert_eq!(status.code(), Some(3));
        let output = server.output();
        assert!(output.contains("out\n") && output.contains("err\n"));
        assert!(server.signal(Signal::TERM).is_err());
    }

    #[test]
    fn a_server_that_dies_is_not_waited_for() {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let error = shell("echo no such file; exit 1")
            .start(address)
            .unwrap_err();
        assert!(error.to_string().contains("no such file"), "{error}");
    }

    #[test]
    fn signals_arrive_and_dropping_kills() {
        let mut polite = shell("trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done");
        polite = polite.env("A", "b");
        let mut server = polite.spawn().unwrap();
        server.wait_for_output("ready", EVENT_TIMEOUT).unwrap();
        assert_eq!(server.stop(EVENT_TIMEOUT).unwrap().code(), Some(7));

        let server = shell("exec sleep 1000").spawn().unwrap();
        let proc = format!("/proc/{}", server.pid());
        assert!(std::path::Path::new(&proc).exists());
        drop(server);
        assert!(!std::path::Path::new(&proc).exists());
    }
}
