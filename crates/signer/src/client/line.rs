//! A few connections to the signer for one kind of request.

use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::wire::LONGEST_FRAME;

/// Connections that are kept open. One caller at a time uses a connection.
#[derive(Debug)]
pub(super) struct Line {
    path: PathBuf,
    free: Semaphore,
    idle: Mutex<Vec<UnixStream>>,
}

/// The permission to use one connection.
pub(super) struct LineTurn<'l> {
    line: &'l Line,
    _permit: Option<SemaphorePermit<'l>>,
}

impl Line {
    /// Returns a line with at most `connections` concurrent connections to the socket at `path`.
    /// The first exchange connects.
    pub(super) fn new(path: &Path, connections: usize) -> Self {
        Self {
            path: path.to_owned(),
            free: Semaphore::new(connections),
            idle: Mutex::default(),
        }
    }

    /// Waits until a connection is free.
    pub(super) async fn turn(&self) -> LineTurn<'_> {
        LineTurn {
            line: self,
            // The semaphore is never closed.
            _permit: self.free.acquire().await.ok(),
        }
    }
}

impl LineTurn<'_> {
    /// Sends frames and reads the response to each. All requests may be repeated: if an idle
    /// connection turns out to be closed, because the signer has restarted, the frames are sent
    /// again on a new connection.
    pub(super) async fn exchange(&self, frames: &[Vec<u8>]) -> io::Result<Vec<Vec<u8>>> {
        let kept = self.line.idle.lock().pop();
        if let Some(kept) = kept
            && let Ok(responses) = self.exchange_on(kept, frames).await
        {
            return Ok(responses);
        }
        self.line.idle.lock().clear();
        let stream = UnixStream::connect(&self.line.path).await?;
        self.exchange_on(stream, frames).await
    }

    /// Writes all frames before reading. The signer keeps reading while it responds, because its
    /// responses fit into the socket buffer.
    async fn exchange_on(
        &self,
        mut stream: UnixStream,
        frames: &[Vec<u8>],
    ) -> io::Result<Vec<Vec<u8>>> {
        for frame in frames {
            stream.write_all(frame).await?;
        }
        let mut responses = Vec::with_capacity(frames.len());
        for _ in frames {
            responses.push(read_frame(&mut stream).await?);
        }
        self.line.idle.lock().push(stream);
        Ok(responses)
    }
}

async fn read_frame(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u32().await? as usize;
    if length > LONGEST_FRAME {
        let problem = "the response is longer than a frame may be";
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame).await?;
    Ok(frame)
}
