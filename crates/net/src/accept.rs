//! Accepting connections.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

/// Pause after an error, which gives open connections time to end.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts the next connection, and returns it with the peer's address. Waits after errors. The
/// future may be dropped at any time without losing a connection.
pub async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => wait_out(&error).await,
        }
    }
}

/// Handles an error of `accept`. If the client has already disconnected, no action is needed. Other
/// errors, such as too many open files, last longer: the function logs the error and waits.
async fn wait_out(error: &io::Error) {
    if !matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
    ) {
        tracing::warn!("accepting a connection failed: {error}");
        tokio::time::sleep(PAUSE).await;
    }
}
