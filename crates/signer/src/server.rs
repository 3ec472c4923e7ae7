//! The server side of the socket, with a thread for each connection. The signer has no async
//! runtime and no network. The [`guard`](crate::guard) makes all decisions.

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

use crate::guard::Head;
use crate::memory::{MemoryDirectory, mode};
use crate::seldom::Seldom;
use crate::signing::{SignError, SigningLog};
use crate::wire::{LONGEST_FRAME, Request, Status, Wish, encode_response, encode_signatures};

/// Maximum number of connections, as a multiple of the number of logs. Each connection may hold a
/// frame in memory. A server has [a few connections](crate::Client) for each log, and there are two
/// servers during a handover.
const CONNECTIONS_PER_LOG: usize = 16;

/// Time limit for the reception of a request after its first byte, and for sending a response.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time after which an idle connection is closed.
const IDLE: Duration = Duration::from_secs(600);

/// The reasons why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The system failed to create the socket.
    #[error("cannot create the socket {path}: {source}")]
    Socket {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// Rate limits of log lines that any local user can cause.
#[derive(Debug, Default)]
struct Refusals {
    unaccepted: Seldom,
    strangers: Seldom,
    too_many: Seldom,
}

/// A listening signer.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    logs: Arc<HashMap<LogId, SigningLog>>,
    /// IDs of the users that may send requests.
    users: Vec<u32>,
    connections: Arc<AtomicUsize>,
    max_connections: usize,
    /// Rate limits of log lines about refused connections.
    refusals: Refusals,
    /// Keeps the directory locked against other signers.
    _memory: MemoryDirectory,
}

impl Server {
    /// Listens at `path` for these users; connections of other users are closed. A socket file of
    /// an earlier signer is replaced: the lock on the memory shows that the earlier signer has
    /// ended.
    ///
    /// # Errors
    /// If the socket cannot be created there.
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
            // Any user may connect; the server then checks the user.
            fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
            Ok(listener)
        };
        let listener = bound().map_err(|source| ServerError::Socket {
            path: path.to_owned(),
            source,
        })?;
        if let Some(mode) = replaceable(path) {
            tracing::warn!(
                "the directory of the socket {} is writable by all users of this machine (mode \
                 {mode:o}): they could replace the socket, and the log would stop; run `chmod o-w` \
                 for the directory",
                path.display()
            );
        }
        let logs: HashMap<_, _> = logs.into_iter().map(|log| (log.log_id(), log)).collect();
        Ok(Self {
            listener,
            max_connections: logs.len() * CONNECTIONS_PER_LOG,
            logs: Arc::new(logs),
            users,
            connections: Arc::default(),
            refusals: Refusals::default(),
            _memory: memory,
        })
    }

    /// Returns the origins of all logs, sorted, with their last signed tree heads.
    pub fn heads(&self) -> Vec<(String, Option<Head>)> {
        let heads = self
            .logs
            .values()
            .map(|log| (log.origin().to_owned(), log.last()));
        let mut heads: Vec<_> = heads.collect();
        heads.sort_by(|(a, _), (b, _)| a.cmp(b));
        heads
    }

    /// Accepts and serves connections forever.
    pub fn run(&self) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => self.begin(stream),
                Err(error) => {
                    if let Some(left_out) = self.refusals.unaccepted.due() {
                        tracing::error!(%error, left_out, "cannot accept connections");
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    fn begin(&self, stream: UnixStream) {
        let peer = match rustix::net::sockopt::socket_peercred(&stream) {
            Ok(peer) => peer.uid.as_raw(),
            Err(error) => return tracing::error!(%error, "cannot read the user of a peer"),
        };
        if !self.users.contains(&peer) {
            if let Some(left_out) = self.refusals.strangers.due() {
                tracing::error!(
                    uid = peer,
                    left_out,
                    "refused a user without permission to sign"
                );
            }
            return;
        }
        let max = self.max_connections;
        let Some(slot) = Slot::take(&self.connections, max) else {
            if let Some(left_out) = self.refusals.too_many.due() {
                tracing::error!(left_out, "refused: {max} connections are open");
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
            tracing::error!(%error, "cannot start a thread for a connection");
        }
    }
}

/// Returns the permission bits of the socket's directory if all users can replace the socket. In a
/// directory with the sticky bit, such as `/tmp`, only the owner can.
fn replaceable(socket: &Path) -> Option<u32> {
    const OTHERS_WRITE: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    let directory = match socket.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mode = mode(&fs::metadata(directory).ok()?);
    (mode & (OTHERS_WRITE | STICKY) == OTHERS_WRITE).then_some(mode)
}

/// A slot for a connection. Dropping the value releases the slot.
struct Slot(Arc<AtomicUsize>);

impl Slot {
    fn take(taken: &Arc<AtomicUsize>, max: usize) -> Option<Self> {
        let slot = Self(taken.clone());
        (taken.fetch_add(1, Ordering::SeqCst) < max).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Serves one peer until it disconnects.
fn converse(mut stream: UnixStream, logs: &HashMap<LogId, SigningLog>) -> io::Result<()> {
    stream.set_write_timeout(Some(EXCHANGE_TIMEOUT))?;
    let mut frame = Vec::new();
    while read_frame(&mut stream, &mut frame)? {
        stream.write_all(&answer(&frame, logs))?;
    }
    Ok(())
}

/// Reads a frame into `frame`; returns `false` if the peer has disconnected or was idle for too
/// long.
fn read_frame(stream: &mut UnixStream, frame: &mut Vec<u8>) -> io::Result<bool> {
    let mut length = [0; 4];
    stream.set_read_timeout(Some(IDLE))?;
    match stream.read(&mut length[..1]) {
        Ok(0) => return Ok(false),
        Ok(_) => {}
        Err(error) if is_silence(&error) => return Ok(false),
        Err(error) => return Err(error),
    }
    let until = Instant::now() + EXCHANGE_TIMEOUT;
    fill(stream, &mut length[1..], until)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > LONGEST_FRAME {
        let problem = format!(
            "frame too long: expected at most {LONGEST_FRAME} bytes, found \
                               {length}"
        );
        return Err(io::Error::new(ErrorKind::InvalidData, problem));
    }
    frame.clear();
    // Memory is allocated as the bytes arrive, not by the announced length.
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
