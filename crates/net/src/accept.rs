//! Accepting connections.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

/// The pause after an error: connections have to end before there is room again.
const PAUSE: Duration = Duration::from_millis(100);

/// The next connection, and whose it is. Errors are waited out. May be dropped
/// at any time: no connection is lost.
pub async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => wait_out(&error).await,
        }
    }
}

/// A connection that is gone already is nobody's problem; anything else, such
/// as too many open files, will not be better at once.
async fn wait_out(error: &io::Error) {
    if !matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
    ) {
        tracing::warn!("cannot accept connections: {error}");
        tokio::time::sleep(PAUSE).await;
    }
}
