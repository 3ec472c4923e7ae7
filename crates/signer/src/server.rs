//! The signer's side of the socket: a thread for each connection. It has no async runtime and no
//! network, and decides nothing: that is the [`guard`](crate::guard)'s.

use std::collections::HashMap;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lucarne_ct::LogId;
use lucarne_x509::now_ms;

use crate::memory::MemoryDirectory;
use crate::seldom::Seldom;
use crate::signing::{SignError, SigningLog};
use crate::wire::{LONGEST_FRAME, Request, Status, Wish, encode_response, encode_signatures};

/// Connections at a time for each log: they may have a frame each. A server has
/// [a few](crate::Client) for each, and there are two servers while one takes over from another.
const CONNECTIONS_PER_LOG: usize = 16;

/// The time that a request may take to arrive once it has begun, and a response to leave.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time after which a connection that says nothing is closed.
const IDLE: Duration = Duration::from_secs(600);

/// The reasons why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The file system's answer.
    #[error("socket {path}: {source}")]
    Socket {
        /// The socket.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// Anybody who reaches the socket can cause these log lines.
#[derive(Debug, Default)]
struct Refusals {
    unaccepted: Seldom,
    strangers: Seldom,
    too_many: Seldom,
}

/// A signer that listens.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    logs: Arc<HashMap<LogId, SigningLog>>,
    /// Users who may ask.
    users: Vec<u32>,
    connections: Arc<AtomicUsize>,
    most_connections: usize,
    /// Log lines about connections that were not accepted.
    refusals: Refusals,
    /// Held, so that no other signer has it.
    _memory: MemoryDirectory,
}

impl Server {
    /// Listens at `path`, for these users: others are not answered. A socket that another signer
    /// left is replaced: that it does not run is known by the memory, which only one has.
    ///
    /// # Errors
    /// If there is no socket to be had there.
    pub fn bind(
        path: &Path,
        memory: MemoryDirectory,
        logs: Vec<SigningLog>,
        users: Vec<u32>,
    ) -> Result<Self, ServerError> {
        let bound = || -> io::Result<UnixListener> {
            if fs::symlink_metadata(path).is_ok_and(|left| left.file_type().is_socket()) {
                fs::remove_file(path)?;
            }
            let listener = UnixListener::bind(path)?;
            // Whoever reaches it is asked who they are.
            fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
            Ok(listener)
        };
        let listener = bound().map_err(|source| ServerError::Socket {
            path: path.to_owned(),
            source,
        })?;
        let logs: HashMap<_, _> = logs.into_iter().map(|log| (log.log_id(), log)).collect();
        Ok(Self {
            listener,
            most_connections: logs.len() * CONNECTIONS_PER_LOG,
            logs: Arc::new(logs),
            users,
            connections: Arc::default(),
            refusals: Refusals::default(),
            _memory: memory,
        })
    }

    /// Answers, for as long as the process lives.
    pub fn run(&self) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => self.begin(stream),
                Err(error) => {
                    if let Some(left_out) = self.refusals.unaccepted.due() {
                        tracing::error!(%error, left_out, "no connection can be accepted");
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    fn begin(&self, stream: UnixStream) {
        let peer = match rustix::net::sockopt::socket_peercred(&stream) {
            Ok(peer) => peer.uid.as_raw(),
            Err(error) => return tracing::error!(%error, "a peer does not say who it is"),
        };
        if !self.users.contains(&peer) {
            if let Some(left_out) = self.refusals.strangers.due() {
                tracing::error!(
                    uid = peer,
                    left_out,
                    "refused: this user may not have anything signed"
                );
            }
            return;
        }
        let most = self.most_connections;
        let Some(slot) = Slot::take(&self.connections, most) else {
            if let Some(left_out) = self.refusals.too_many.due() {
                tracing::error!(left_out, "refused: {most} connections are open");
            }
            return;
        };
        let logs = self.logs.clone();
        let thread = std::thread::Builder::new().name("lucarne-signer".into());
        let started = thread.spawn(move || {
            if let Err(error) = converse(stream, &logs) {
                tracing::warn!(%error, "a connection was cut");
            }
            drop(slot);
        });
        if let Err(error) = started {
            tracing::error!(%error, "no thread for a connection");
        }
    }
}

/// A place among the connections; given back when it is dropped.
struct Slot(Arc<AtomicUsize>);

impl Slot {
    fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let slot = Self(taken.clone());
        (taken.fetch_add(1, Ordering::SeqCst) < most).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Answers one peer until it is gone.
fn converse(mut stream: UnixStream, logs: &HashMap<LogId, SigningLog>) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut frame = Vec::new();
    while read_frame(&mut stream, &mut frame)? {
        stream.write_all(&answer(&frame, logs))?;
    }
    Ok(())
}

/// Reads a frame into `frame`; false if the peer is gone, or has said nothing for long.
fn read_frame(stream: &mut UnixStream, frame: &mut Vec<u8>) -> io::Result<bool> {
    let mut length = [0; 4];
    stream.set_read_timeout(Some(IDLE))?;
    match stream.read(&mut length[..1]) {
        Ok(0) => return Ok(false),
        Ok(_) => {}
        Err(error) if is_silence(&error) => return Ok(false),
        Err(error) => return Err(error),
    }
    let until = Instant::now() + PATIENCE;
    fill(stream, &mut length[1..], until)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > LONGEST_FRAME {
        let problem = format!("a frame of {length} bytes, of {LONGEST_FRAME} at most");
        return Err(io::Error::new(ErrorKind::InvalidData, problem));
    }
    frame.clear();
    // What is said to come has no memory before it comes.
    while frame.len() < length {
        let from = frame.len();
        frame.resize(length.min(from + (256 << 10)), 0);
        fill(stream, &mut frame[from..], until)?;
    }
    Ok(true)
}

fn fill(stream: &mut UnixStream, mut space: &mut [u8], until: Instant) -> io::Result<()> {
    while !space.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(space) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => space = &mut space[read..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Returns the response to a frame.
fn answer(frame: &[u8], logs: &HashMap<LogId, SigningLog>) -> Vec<u8> {
    let bad = |problem: String| encode_response(Status::BadRequest, problem.as_bytes());
    let request = match Request::decode(frame) {
        Ok(request) => request,
        Err(error) => return bad(error.to_string()),
    };
    let Some(log) = logs.get(&request.log_id) else {
        return bad(format!("this signer has no log with ID {}", request.log_id));
    };
    match signed(log, request.wish) {
        Ok(bytes) => encode_response(Status::Done, &bytes),
        Err(error) => {
            let status = match &error {
                SignError::Refused(_) => Status::Refused,
                SignError::UnknownTree(_) => Status::UnknownTree,
                _ => Status::Failed,
            };
            if status != Status::UnknownTree {
                tracing::error!(log = log.origin(), %error, "nothing was signed");
            }
            encode_response(status, error.to_string().as_bytes())
        }
    }
}

fn signed(log: &SigningLog, wish: Wish<'_>) -> Result<Vec<u8>, SignError> {
    match wish {
        Wish::Last => Ok(log.note().unwrap_or_default()),
        Wish::Head { head, proof } => log.sign_head(head, &proof, now_ms()),
        Wish::Range { before, leaves } => Ok(encode_signatures(&log.sign_range(before, &leaves)?)),
        Wish::Leaf {
            size,
            index,
            proof,
            leaf,
        } => Ok(encode_signatures(&[
            log.sign_leaf(size, index, leaf, &proof)?
        ])),
    }
}

#[cfg(test)]
mod tests;
