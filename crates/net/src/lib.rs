//! Parts that servers and clients of all protocols share: accepting and counting connections,
//! dialling, address blocks, trusted certificates, formats of metrics, and a client for Lucarne's
//! own HTTP requests.
//!
//! ```text
//! server:  socket → accept → OpenConnections → end of the last connection
//! dialler: addresses → interleave → first_of → connection
//! client:  request → Client → Verifier → server
//! ```
//!
//! | item | contents |
//! |---|---|
//! | [`accept()`], [`OpenConnections`] | new connections, and the wait for the last one |
//! | [`RequestId`] | identifier of a request in log and response |
//! | [`exposition()`] | the formats of metrics |
//! | [`Network`], [`special`] | address blocks, and addresses outside the public internet |
//! | [`NoProxy`] | hosts that clients reach without a proxy |
//! | [`interleave`], [`first_of`] | connecting to the first address that accepts |
//! | [`Trust`], [`Verifier`], [`trusting`] | trusted certificates, and their verifier |
//! | [`explain`], [`tls_error`], [`shows_authority`] | the reasons of failed handshakes |
//! | [`without_secrets`], [`is_secret`] | texts without the passwords of URLs, names of secrets |
//! | [`printable`], [`printable_lines`], [`printable_coloured`] | texts for terminals, without control characters |
//! | `Client`, `BlockingClient` (feature `client`) | a client for Lucarne's own requests |

mod accept;
#[cfg(feature = "client")]
mod client;
mod dial;
mod exposition;
mod network;
mod no_proxy;
mod request_id;
mod shown;
mod tls;

pub use accept::{OpenConnection, OpenConnections, accept};
#[cfg(feature = "client")]
pub use client::{BlockingClient, Client, ClientError, CompleteResponse, Validators};
pub use dial::{first_of, interleave};
pub use exposition::exposition;
pub use lucarne_x509::text::counted;
pub use network::{Network, NetworkError, special};
pub use no_proxy::NoProxy;
pub use request_id::RequestId;
pub use shown::{
    HIDDEN, is_secret, printable, printable_coloured, printable_lines, url_without_secrets,
    without_secrets,
};
pub use tls::{
    Trust, TrustError, Verifier, alert_name, explain, explain_client, shows_authority, tls_error,
    trusting,
};
