//! The things that a server and its clients share, whatever they speak: accepting
//! connections and letting go of them, dialling, address blocks, whom this machine
//! trusts, and the product's own few HTTP requests.

mod accept;
#[cfg(feature = "client")]
mod client;
mod dial;
mod network;
mod open_connections;
mod request_id;
mod tls;

pub use accept::accept;
#[cfg(feature = "client")]
pub use client::{Answer, BlockingClient, Client, ClientError, Validators};
pub use dial::{first_of, interleave};
pub use network::{Network, NetworkError, special};
pub use open_connections::{OpenConnection, OpenConnections};
pub use request_id::RequestId;
pub use tls::{Trust, TrustError, Verifier, explain, shows_authority, tls_error, trusting};
