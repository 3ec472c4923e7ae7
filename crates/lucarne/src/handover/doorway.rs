//! Socket at which the running process hands over its logs.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use lucarne_log::State;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::places::{Mismatch, compare, lock_place, log_place};
use super::wire::{Hello, LogPlace, Message, Offer, Wire};
use super::{PREPARING, RESPONSE_TIMEOUT};
use crate::hosting::{Current, Hosted};

/// Interval at which the name of the socket is checked.
const LOOK: Duration = Duration::from_secs(1);

/// A listening socket. Until [`answer`](Self::answer), it does not have its final name.
pub(crate) struct Doorway {
    listener: UnixListener,
    path: PathBuf,
}

/// A process that is ready to take over.
pub(crate) struct Candidate {
    pub(super) wire: Wire,
    pub(super) pid: i32,
    /// The logs of this process when they were compared with the candidate's logs.
    hosted: Arc<Hosted>,
    /// Only one process at a time may take over.
    _alone: OwnedMutexGuard<()>,
}

/// Resources that are handed over.
pub(crate) struct Estate {
    pub(crate) hosted: Current,
    /// Sockets, each with its text in `listen`.
    pub(crate) sockets: Vec<(String, OwnedFd)>,
}

/// Stream of candidates, which ends when this value is dropped.
pub(crate) struct Candidates {
    coming: mpsc::Receiver<Candidate>,
    greeting: JoinHandle<()>,
}

impl Doorway {
    /// Listens on a temporary name beside `path`.
    ///
    /// # Errors
    /// If `path` exists and is not a socket, or its directory is not writable.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let of_path = || format!("`handover`: {}", path.display());
        if fs::symlink_metadata(path).is_ok_and(|there| !there.file_type().is_socket()) {
            bail!(
                "{}: not a socket: remove the file, or configure another path",
                of_path()
            );
        }
        let next = next_to(path);
        let opened = || -> io::Result<UnixListener> {
            // An interrupted start left the socket.
            match fs::remove_file(&next) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let listener = UnixListener::bind(&next)?;
            fs::set_permissions(&next, fs::Permissions::from_mode(0o600))?;
            Ok(listener)
        };
        Ok(Doorway {
            listener: opened().with_context(|| {
                format!("`handover`: cannot create the socket {}", next.display())
            })?,
            path: path.to_owned(),
        })
    }

    /// Renames the socket to its final name, replacing an older socket, and accepts requests.
    ///
    /// # Errors
    /// If the file system refuses the rename.
    pub(crate) fn answer(self, estate: Estate) -> Result<Candidates> {
        let named = self.name()?;
        let (found, coming) = mpsc::channel(1);
        Ok(Candidates {
            coming,
            greeting: tokio::spawn(greet_all(named, Arc::new(estate), found)),
        })
    }

    fn name(self) -> Result<NamedSocket> {
        let Doorway { listener, path } = self;
        fs::rename(next_to(&path), &path).with_context(|| {
            format!(
                "`handover`: cannot rename the new socket to {}",
                path.display()
            )
        })?;
        let identity = identity(&path);
        Ok(NamedSocket {
            listener,
            path,
            identity,
        })
    }
}

/// The socket at its final name, which is removed together with this value.
struct NamedSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode, which distinguish this socket from a later socket.
    identity: Option<(u64, u64)>,
}

impl NamedSocket {
    /// Returns the next connection. Creates the socket again if its name was removed: without it,
    /// no process can take over. Another socket or file with the name stays.
    async fn accept(&mut self) -> io::Result<UnixStream> {
        loop {
            match timeout(LOOK, self.listener.accept()).await {
                Ok(accepted) => return accepted.map(|(stream, _)| stream),
                Err(_) if is_missing(&self.path) => self.create_again(),
                Err(_) => {}
            }
        }
    }

    fn create_again(&mut self) {
        let created = Doorway::open(&self.path).and_then(Doorway::name);
        let Ok(created) = created.inspect_err(|error| {
            // The directory may be missing, too. The next look tries again.
            tracing::debug!("the socket was removed and cannot be created again: {error:#}");
        }) else {
            return;
        };
        tracing::warn!(
            "`handover`: {} was removed, and is created again",
            self.path.display()
        );
        *self = created;
    }
}

impl Drop for NamedSocket {
    fn drop(&mut self) {
        // The next process may already have its own socket there.
        if self.identity.is_some() && identity(&self.path) == self.identity {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn is_missing(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

fn next_to(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".next");
    path.with_file_name(name)
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let there = fs::symlink_metadata(path).ok()?;
    Some((there.dev(), there.ino()))
}

impl Candidate {
    /// Returns whether these are the logs that the candidate was compared with.
    pub(crate) fn knows(&self, hosted: &Hosted) -> bool {
        let (known, present) = (&self.hosted.logs, &hosted.logs);
        let mut pairs = std::iter::zip(known, present);
        known.len() == present.len() && pairs.all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// Ends the candidate without a hand-over, and sends the reason.
    pub(crate) async fn withdraw(mut self, why: &str) {
        tracing::error!(pid = self.pid, "not handed over: {why}");
        self.wire.withdraw(why.to_owned()).await;
    }
}

impl Candidates {
    /// Returns the next ready candidate. Cancel safe.
    pub(crate) async fn next(&mut self) -> Candidate {
        match self.coming.recv().await {
            Some(candidate) => candidate,
            // The sending task lives as long as `self`.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Candidates {
    fn drop(&mut self) {
        self.greeting.abort();
    }
}

async fn greet_all(mut socket: NamedSocket, estate: Arc<Estate>, found: mpsc::Sender<Candidate>) {
    let one = Arc::new(Mutex::new(()));
    loop {
        match socket.accept().await {
            Ok(stream) => {
                let (estate, one, found) = (estate.clone(), one.clone(), found.clone());
                tokio::spawn(async move {
                    match greet(stream, &estate, one).await {
                        Ok(candidate) => drop(found.send(candidate).await),
                        Err(error) => tracing::warn!("not handed over: {error:#}"),
                    }
                });
            }
            Err(error) => {
                tracing::warn!("`handover`: cannot accept a connection: {error}");
                // `accept` fails while the process is out of descriptors. The pause avoids a busy
                // loop.
                tokio::time::sleep(LOOK).await;
            }
        }
    }
}

/// Verifies a process that connected to the socket, and prepares it.
async fn greet(stream: UnixStream, estate: &Estate, one: Arc<Mutex<()>>) -> Result<Candidate> {
    let mut wire = Wire::new(stream);
    let (user, pid) = wire.peer()?;
    // The whole message is read before a refusal, because closing a socket with unread data would
    // discard the reason.
    let hosted = estate.hosted.now();
    let admitted = match hear(&mut wire).await? {
        Ok(hello) => admit(user, &hello, &hosted, one)?,
        Err(refusal) => Err(refusal),
    };
    match admitted {
        Ok(alone) => {
            prepare(&mut wire, estate, &hosted).await?;
            Ok(Candidate {
                wire,
                pid,
                hosted,
                _alone: alone,
            })
        }
        Err(refusal) => {
            let message = Message::Refused(refusal.to_string());
            let _ = timeout(RESPONSE_TIMEOUT, wire.send(&message)).await;
            bail!("process {pid}: {refusal}")
        }
    }
}

/// Reasons why a process may not take over. The text is for that process.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("expected a message that begins a hand-over, found another message")]
    NoHello,
    #[error("the running process refuses: {0}")]
    Unreadable(#[source] anyhow::Error),
    #[error(
        "the running process belongs to user {own}: only that user and root may take over from \
         it, not user {user}"
    )]
    User { own: u32, user: u32 },
    #[error("another process is taking over now: retry when that process has finished")]
    Busy,
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
}

/// Receives the hello of a process. Returns a refusal if the first message is not a hello.
async fn hear(wire: &mut Wire) -> Result<Result<Hello, Refusal>> {
    match timeout(RESPONSE_TIMEOUT, wire.receive())
        .await
        .with_context(|| {
            format!(
                "the other process sent no message within {} s",
                RESPONSE_TIMEOUT.as_secs()
            )
        })? {
        Ok(Some(Message::Hello(hello))) => Ok(Ok(hello)),
        Ok(None) => bail!("the other process ended before its first message"),
        Ok(Some(_)) => Ok(Err(Refusal::NoHello)),
        Err(error) => Ok(Err(Refusal::Unreadable(error))),
    }
}

/// Reserves the hand-over for one process, or refuses it.
fn admit(
    user: u32,
    hello: &Hello,
    hosted: &Hosted,
    one: Arc<Mutex<()>>,
) -> Result<Result<OwnedMutexGuard<()>, Refusal>> {
    let own = rustix::process::geteuid().as_raw();
    if user != own && user != 0 {
        return Ok(Err(Refusal::User { own, user }));
    }
    let Ok(alone) = one.try_lock_owned() else {
        return Ok(Err(Refusal::Busy));
    };
    tracing::info!(version = hello.version, "another process requests the logs");
    let fits = fits(hello, hosted)?;
    Ok(fits.map(|()| alone).map_err(Refusal::from))
}

/// Compares the lock and the logs of the other process with the lock and the logs of this process.
fn fits(hello: &Hello, hosted: &Hosted) -> Result<Result<(), Mismatch>> {
    let lock = lock_place(&hosted.config.checkpoints.value)?;
    // A log that was never created is not part of the hand-over.
    let there = hosted.each().filter(|(_, log)| log.published().is_some());
    let logs = there.map(|(settings, _)| log_place(settings));
    let logs: Vec<LogPlace> = logs.collect::<Result<_>>()?;
    Ok(compare(hello, &lock, &logs))
}

async fn prepare(wire: &mut Wire, estate: &Estate, hosted: &Hosted) -> Result<()> {
    let mut sockets = Vec::new();
    for (_, socket) in &estate.sockets {
        sockets.push(socket.as_fd().try_clone_to_owned()?);
    }
    let running = hosted
        .logs
        .iter()
        .filter(|log| log.state() == State::Running);
    let offer = Message::Offer(Offer {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sockets: estate
            .sockets
            .iter()
            .map(|(text, _)| text.clone())
            .collect(),
        running: running
            .map(|log| log.config().key.log_id().to_string())
            .collect(),
    });
    timeout(RESPONSE_TIMEOUT, wire.send_with(&offer, &sockets)).await??;
    match timeout(PREPARING, wire.receive()).await {
        Ok(Ok(Some(Message::Ready))) => Ok(()),
        Ok(Ok(Some(Message::Failed(why)))) => bail!("the other process failed: {why}"),
        Ok(Ok(_)) => bail!("the other process ended before it was ready"),
        Ok(Err(error)) => Err(error),
        Err(_) => bail!(
            "the other process was not ready after {} s",
            PREPARING.as_secs()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_that_was_removed_is_created_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("handover");
        let mut socket = Doorway::open(&path).unwrap().name().unwrap();
        fs::remove_file(&path).unwrap();
        let connecting = async {
            loop {
                match UnixStream::connect(&path).await {
                    Ok(stream) => return stream,
                    // No event reports the new socket.
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        };
        let both = async { tokio::join!(socket.accept(), connecting) };
        let (accepted, _stream) = timeout(Duration::from_secs(60), both).await.unwrap();
        accepted.unwrap();

        // The socket of another process stays.
        fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        let there = identity(&path);
        drop(socket);
        assert_eq!(identity(&path), there);
        drop(other);
    }
}
