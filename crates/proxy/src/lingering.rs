//! Lingering close of a client's connection.
//!
//! If a socket is closed while the client still sends, for example the body of a request that is
//! refused, the kernel resets the connection, and the client may lose the response. Therefore the
//! proxy first closes its sending side, and drops the bytes of the client until the client closes
//! the connection or a time limit is over.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// Time limit without a byte of the client.
const SILENCE: Duration = Duration::from_secs(2);

/// Time limit in total.
const TOTAL: Duration = Duration::from_secs(30);

/// Reads the rest of a client's bytes, and drops them.
pub(crate) struct Lingering {
    alarm: Pin<Box<Sleep>>,
    latest: Instant,
}

impl Lingering {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Lingering {
            alarm: Box::pin(sleep_until(now + SILENCE)),
            latest: now + TOTAL,
        }
    }

    /// Polls until the client closes the connection, or a time limit is over.
    pub(crate) fn poll<S>(&mut self, stream: &mut S, cx: &mut Context<'_>) -> Poll<()>
    where
        S: AsyncRead + Unpin,
    {
        let mut bytes = [0; 8 << 10];
        while self.alarm.as_mut().poll(cx).is_pending() {
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(&mut *stream).poll_read(cx, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                break;
            }
            let next = Instant::now() + SILENCE;
            self.alarm.as_mut().reset(next.min(self.latest));
        }
        Poll::Ready(())
    }
}

/// A request for another protocol (CONNECT or `Upgrade`), until its response is known.
///
/// After the response, hyper leaves the connection to the upgrade, also if the response refuses the
/// upgrade. Without this type, the connection would then be closed at once.
pub(crate) struct Upgrading {
    upgrade: Option<OnUpgrade>,
    connect: bool,
}

impl Upgrading {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        Upgrading {
            upgrade: request.extensions().get::<OnUpgrade>().cloned(),
            connect: request.method() == Method::CONNECT,
        }
    }

    /// Closes the connection in the background, if `response` refuses the upgrade and ends the
    /// connection.
    pub(crate) fn ended<B>(self, response: &Response<B>) {
        let status = response.status();
        let accepted =
            status == StatusCode::SWITCHING_PROTOCOLS || self.connect && status.is_success();
        if let Some(upgrade) = self.upgrade.filter(|_| !accepted) {
            tokio::spawn(async move {
                // The connection may continue with other requests.
                if let Ok(upgraded) = upgrade.await {
                    let _ = TokioIo::new(upgraded).shutdown().await;
                }
            });
        }
    }
}
