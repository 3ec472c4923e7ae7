//! Parts that servers and clients of all protocols share: accepting and counting connections,
//! dialling, address blocks, trusted certificates, formats of metrics, and a client for our own
//! HTTP requests.

mod accept;
#[cfg(feature = "client")]
mod client;
mod dial;
mod exposition;
mod network;
mod open_connections;
mod request_id;
mod tls;

pub use accept::accept;
#[cfg(feature = "client")]
pub use client::{Answer, BlockingClient, Client, ClientError, Validators};
pub use dial::{first_of, interleave};
pub use exposition::exposition;
pub use network::{Network, NetworkError, special};
pub use open_connections::{OpenConnection, OpenConnections};
pub use request_id::RequestId;
pub use tls::{Trust, TrustError, Verifier, explain, shows_authority, tls_error, trusting};
