//! Messages to the service manager (`sd_notify(3)`), if `NOTIFY_SOCKET` names its socket.
//!
//! | module | messages |
//! |---|---|
//! | this module | state and status of any service |
//! | `service` | state and status of a server of logs |
//! | `watchdog` | the watchdog of a server of logs |

mod service;
mod watchdog;

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::interval;

pub(crate) use service::{keep, reloaded_after};

/// Time limit for sending one message.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Minimum time between two status messages.
pub(crate) const STATUS_INTERVAL: Duration = Duration::from_secs(5);

/// Returns whether a service manager expects messages.
pub(crate) fn is_wanted() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// Reports that the service is ready, and that this process is its main process from now on.
pub(crate) fn ready() {
    send(&format!("MAINPID={}\nREADY=1", std::process::id()));
}

/// Reports that the configuration is being read again.
pub(crate) fn reloading() {
    let now = clock_gettime(ClockId::Monotonic);
    let microseconds = Duration::try_from(now).unwrap_or_default().as_micros();
    send(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"));
}

/// Reports the end of [`reloading`].
pub(crate) fn reloaded() {
    send("READY=1");
}

/// Reports that the service stops.
pub(crate) fn stopping() {
    send("STOPPING=1\nSTATUS=stopping");
}

/// Reports the status of the service as one line of text.
pub(crate) fn status(text: &str) {
    send(&format!("STATUS={text}"));
}

/// Reports the status at once and after each change, at most every [`STATUS_INTERVAL`]. Does not
/// end if a service manager expects messages.
pub(crate) async fn keep_status(text: impl Fn() -> String) {
    if !is_wanted() {
        return;
    }
    let mut reported = None;
    let mut ticks = interval(STATUS_INTERVAL);
    loop {
        ticks.tick().await;
        let now = text();
        if reported.as_ref() != Some(&now) {
            status(&now);
            reported = Some(now);
        }
    }
}

fn send(message: &str) {
    /// Set after the first failure: a warning for each message would fill the log.
    static HAS_FAILED: AtomicBool = AtomicBool::new(false);
    let Some(place) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send_to(&place, message)
        && !HAS_FAILED.swap(true, Ordering::Relaxed)
    {
        let place = place.display();
        tracing::warn!("NOTIFY_SOCKET={place}: the service manager gets no message: {error}");
    }
}

fn send_to(place: &OsStr, message: &str) -> io::Result<()> {
    let address = match place.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(place)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(SEND_TIMEOUT))?;
    socket.send_to_addr(message.as_bytes(), &address)?;
    Ok(())
}
