//! The failures on the way of a request, in words for whoever asked.

use std::net::IpAddr;
use std::time::Duration;

use http::StatusCode;
use lucarne_mint::store::{Host, StoreError};

use crate::certificate_summary::CertificateSummary;
use crate::checks::ChecksFull;
use crate::pattern::HostPattern;
use crate::upstream_proxy::UpstreamProxy;

/// The reasons why the proxy refuses to reach a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The list of denied hosts has this host, by this pattern.
    Denied(Host, HostPattern),
    /// The list of allowed hosts does not have this host.
    NotAllowed(Host),
    /// This port may not be reached.
    Port(u16),
    /// The host's address is not one of the public internet; what it is.
    Address(IpAddr, &'static str),
    /// It would talk to itself.
    Loop,
}

/// The reasons why there is no answer from a server. Cheap to clone: one
/// failure to connect may be told to several requests.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The request makes no sense to a proxy; why.
    Request(String),
    /// The request has a transfer coding that is not supported; which one.
    Coding(String),
    /// The response has a transfer coding that is not supported; which one.
    ServerCoding(String),
    /// The client has not said who it is, or nobody that is known.
    Authentication,
    /// Too many passwords wait to be checked.
    Checks(ChecksFull),
    /// The proxy does not want to.
    Refused(Refusal),
    /// The name has no address; what the resolver says.
    Resolve(String),
    /// No address of the host takes connections; what the system says.
    Connect(String),
    /// The certificate does not prove that this is the server; what is wrong
    /// with it, and what it says.
    Certificate(String, Option<Box<CertificateSummary>>),
    /// TLS with the server did not come about; why.
    Tls(String),
    /// The server closed the connection, or did not speak HTTP; what it did.
    Closed(String),
    /// The server took too long; for what, and how long that was.
    Timeout(Step, Duration),
    /// The upstream proxy that is to be asked gave no connection; which one,
    /// and why.
    Upstream(String, UpstreamFailure),
    /// The proxy has no certificate to answer with.
    Mint(StoreError),
}

/// The reasons why an upstream proxy gave no connection.
#[derive(Clone, Debug)]
pub enum UpstreamFailure {
    /// It was not reached; what failed on the way to it.
    Unreached(Box<Failure>),
    /// It broke off. Reads as a sentence without its beginning and its end.
    Broke(&'static str),
    /// It does not want to, or cannot; its status, and its `Proxy-Status`.
    Refused(StatusCode, Option<String>),
}

/// The steps that can take too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Looking the name up.
    Resolve,
    /// Connecting.
    Connect,
    /// The TLS handshake.
    Handshake,
    /// The answer's head.
    Answer,
}

impl Failure {
    /// The status it is told with.
    pub fn status(&self) -> StatusCode {
        match self {
            Failure::Request(_) => StatusCode::BAD_REQUEST,
            Failure::Coding(_) => StatusCode::NOT_IMPLEMENTED,
            Failure::Authentication => StatusCode::PROXY_AUTHENTICATION_REQUIRED,
            Failure::Refused(_) => StatusCode::FORBIDDEN,
            Failure::Timeout(..) => StatusCode::GATEWAY_TIMEOUT,
            Failure::Upstream(_, trouble) => trouble.status(),
            Failure::Checks(ChecksFull::OfClient) => StatusCode::TOO_MANY_REQUESTS,
            Failure::Mint(StoreError::Overloaded { .. }) | Failure::Checks(ChecksFull::OfAll) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            _ => StatusCode::BAD_GATEWAY,
        }
    }

    /// A word for metrics and for the `error` of `Proxy-Status` (RFC 9209 2.3
    /// registers most of them).
    pub fn kind(&self) -> &'static str {
        match self {
            Failure::Request(_) | Failure::Coding(_) => "http_request_error",
            Failure::ServerCoding(_) => "http_response_transfer_coding",
            Failure::Authentication => "proxy_authentication_required",
            Failure::Checks(_) => "password_check_limit_reached",
            Failure::Refused(Refusal::Loop) => "proxy_loop_detected",
            Failure::Refused(Refusal::Address(..)) => "destination_ip_prohibited",
            Failure::Refused(_) => "http_request_denied",
            Failure::Resolve(_) => "dns_error",
            Failure::Connect(_) => "connection_refused",
            Failure::Certificate(..) => "tls_certificate_error",
            Failure::Tls(_) => "tls_protocol_error",
            Failure::Closed(_) => "connection_terminated",
            Failure::Timeout(Step::Resolve, _) => "dns_timeout",
            Failure::Timeout(Step::Connect | Step::Handshake, _) => "connection_timeout",
            Failure::Timeout(Step::Answer, _) => "http_response_timeout",
            Failure::Upstream(_, trouble) => trouble.kind(),
            Failure::Mint(_) => "proxy_internal_error",
        }
    }

    /// Returns what failed, in a few words.
    pub fn title(&self) -> &'static str {
        match self {
            Failure::Request(_) => "This request is not for a proxy",
            Failure::Coding(_) => "The request is encoded in a way that is not supported",
            Failure::ServerCoding(_) => "The response is encoded in a way that is not supported",
            Failure::Authentication => "The proxy wants to know who you are",
            Failure::Checks(_) => "Too many passwords wait to be checked",
            Failure::Refused(_) => "The proxy does not connect to this host",
            Failure::Resolve(_) => "The host has no address",
            Failure::Connect(_) => "The host cannot be connected to",
            Failure::Certificate(..) => "The server's certificate is not valid for this host",
            Failure::Tls(_) => "No TLS with the server",
            Failure::Closed(_) => "The server gave no answer",
            Failure::Timeout(..) => "The server took too long",
            Failure::Upstream(..) => "The upstream proxy gave no connection to this host",
            Failure::Mint(_) => "The proxy has no certificate for this host",
        }
    }

    /// Returns what failed, in a sentence.
    pub fn reason(&self) -> String {
        match self {
            Failure::Request(why)
            | Failure::Coding(why)
            | Failure::ServerCoding(why)
            | Failure::Resolve(why)
            | Failure::Connect(why)
            | Failure::Certificate(why, _)
            | Failure::Tls(why)
            | Failure::Closed(why) => why.clone(),
            Failure::Authentication => {
                "The request has no Proxy-Authorization that the proxy knows.".to_owned()
            }
            Failure::Checks(ChecksFull::OfClient) => {
                "Others from your address were before it: yours was not looked at.".to_owned()
            }
            Failure::Checks(ChecksFull::OfAll) => {
                "Those of other clients were before it: yours was not looked at.".to_owned()
            }
            Failure::Refused(refusal) => refusal.reason(),
            Failure::Timeout(step, after) => step.reason(*after),
            Failure::Upstream(proxy, trouble) => trouble.reason(proxy),
            Failure::Mint(error) => error.to_string(),
        }
    }

    /// Returns what to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Failure::Request(_) => {
                "Set this address as HTTP proxy of your client. GET /ca.pem gives the CA \
                 certificate to trust."
            }
            Failure::Coding(_) | Failure::ServerCoding(_) => {
                "Compress with Content-Encoding instead of Transfer-Encoding, or pass the host on \
                 untouched by a rule (action: tunnel)."
            }
            Failure::Authentication => "Give the client a user name and a password for the proxy.",
            Failure::Refused(refusal) => refusal.advice(),
            Failure::Resolve(_) => {
                "Look at how the name is spelt, and whether the machine of the proxy can resolve it."
            }
            Failure::Connect(_) => {
                "Look whether the server runs and the port is right, and whether a firewall \
                 stands between it and the proxy."
            }
            Failure::Certificate(..) => {
                "If the server is yours: renew its certificate, send the intermediates, or give \
                 the proxy its CA (upstream.ca, --upstream-ca). To look at it all the same, pass \
                 the host on untouched by a rule (action: tunnel). To accept this certificate, or any \
                 certificate of this host, give the proxy its fingerprint (--upstream-fingerprint) \
                 or the host (--insecure-host)."
            }
            Failure::Tls(_) => {
                "Look whether the port speaks TLS, and which versions: the proxy speaks 1.2 and \
                 1.3. Servers that want a client's certificate need one that the proxy shows \
                 (upstream.certificates), or a rule (action: tunnel)."
            }
            Failure::Closed(_) => {
                "Try again. If the port does not speak HTTP, pass the host on untouched by a rule \
                 (action: tunnel)."
            }
            Failure::Timeout(..) => {
                "Try again; if the server needs longer than that, raise the proxy's timeouts."
            }
            Failure::Upstream(_, trouble) => trouble.advice(),
            Failure::Mint(StoreError::Overloaded { .. }) | Failure::Checks(_) => {
                "Try again in a moment."
            }
            Failure::Mint(_) => "Look at the proxy's log, its CA and its store directory.",
        }
    }

    /// `Proxy-Status` (RFC 9209): what failed, and with which upstream proxy,
    /// if with one, after what that one says.
    pub(crate) fn proxy_status(&self) -> String {
        let own = format!("lucarne; error={}", self.kind());
        match self {
            Failure::Upstream(proxy, UpstreamFailure::Refused(status, said)) => {
                let before = said
                    .as_ref()
                    .map_or(String::new(), |said| format!("{said}, "));
                format!("{before}{own}; {}", next_hop(proxy, *status))
            }
            Failure::Upstream(proxy, _) => format!("{own}; next-hop=\"{proxy}\""),
            _ => own,
        }
    }

    /// Returns what the server's certificate says, where that is the trouble.
    pub fn facts(&self) -> Option<&CertificateSummary> {
        match self {
            Failure::Certificate(_, facts) => facts.as_deref(),
            Failure::Upstream(_, UpstreamFailure::Unreached(failure)) => failure.facts(),
            _ => None,
        }
    }
}

/// The parameters of `Proxy-Status` that name an upstream proxy and its status.
pub(crate) fn next_hop(proxy: impl std::fmt::Display, status: StatusCode) -> String {
    format!("next-hop=\"{proxy}\"; received-status={}", status.as_u16())
}

/// Returns whether a proxy wants to know who asks. Some say it as servers do, to those
/// whose password is wrong.
fn unknown(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::PROXY_AUTHENTICATION_REQUIRED | StatusCode::UNAUTHORIZED
    )
}

impl UpstreamFailure {
    /// As the failure of a request that went to `proxy`.
    pub(crate) fn of(self, proxy: &UpstreamProxy) -> Failure {
        Failure::Upstream(proxy.to_string(), self)
    }

    /// A refusal stays one, and a lack of time. The rest is between the two
    /// proxies: above all 407, which the client could not do anything about.
    fn status(&self) -> StatusCode {
        match self {
            UpstreamFailure::Unreached(failure) => failure.status(),
            UpstreamFailure::Refused(
                status @ (StatusCode::FORBIDDEN | StatusCode::GATEWAY_TIMEOUT),
                _,
            ) => *status,
            UpstreamFailure::Broke(_) | UpstreamFailure::Refused(..) => StatusCode::BAD_GATEWAY,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            UpstreamFailure::Unreached(failure) => failure.kind(),
            UpstreamFailure::Broke(_) => "connection_terminated",
            UpstreamFailure::Refused(status, _) if unknown(*status) => "proxy_configuration_error",
            UpstreamFailure::Refused(StatusCode::FORBIDDEN, _) => "http_request_denied",
            UpstreamFailure::Refused(StatusCode::GATEWAY_TIMEOUT, _) => "connection_timeout",
            UpstreamFailure::Refused(..) => "destination_unavailable",
        }
    }

    fn reason(&self, proxy: &str) -> String {
        match self {
            UpstreamFailure::Unreached(failure) => {
                format!("The upstream proxy {proxy} cannot be used: {failure}")
            }
            UpstreamFailure::Broke(why) => {
                format!("The upstream proxy {proxy} cannot be used: {why}.")
            }
            UpstreamFailure::Refused(status, said) => {
                let said = said
                    .as_ref()
                    .map_or(String::new(), |said| format!(" ({said})"));
                format!("The upstream proxy {proxy} says {status}{said}.")
            }
        }
    }

    fn advice(&self) -> &'static str {
        match self {
            UpstreamFailure::Refused(status, _) if unknown(*status) => {
                "Whoever runs this proxy can give it the user name and the password that the \
                 upstream proxy wants (upstream.proxy)."
            }
            UpstreamFailure::Refused(StatusCode::FORBIDDEN, _) => {
                "Whoever runs the upstream proxy can allow the host. Whoever runs this one can \
                 have it reached another way (upstream.proxy)."
            }
            UpstreamFailure::Refused(..) => {
                "The upstream proxy did not get through to the host: look whether the host \
                 answers from there."
            }
            UpstreamFailure::Unreached(_) | UpstreamFailure::Broke(_) => {
                "Look whether the upstream proxy runs, and whether upstream.proxy has its \
                 address. Nothing is connected to directly instead."
            }
        }
    }
}

impl Refusal {
    fn reason(&self) -> String {
        match self {
            Refusal::Denied(host, pattern) => {
                format!("{host} is on the list of denied hosts ({pattern}).")
            }
            Refusal::NotAllowed(host) => format!("{host} is not on the list of allowed hosts."),
            Refusal::Port(port) => format!("Port {port} may not be reached."),
            Refusal::Address(ip, kind) => format!("Its address {ip} is {kind}."),
            Refusal::Loop => {
                "That is this proxy itself: the request would go round in circles.".to_owned()
            }
        }
    }

    fn advice(&self) -> &'static str {
        match self {
            Refusal::Denied(..) => "Whoever runs the proxy can change the list (deny, --deny).",
            Refusal::NotAllowed(_) => "Whoever runs the proxy can add it (allow, --allow).",
            Refusal::Port(_) => "Whoever runs the proxy can allow the port (ports, --allow-port).",
            Refusal::Address(..) => {
                "Whoever runs the proxy can allow such addresses (networks, --allow-network, or \
                 private, --allow-private)."
            }
            Refusal::Loop => "Look at the proxy settings of whatever sent this request.",
        }
    }
}

impl Step {
    fn reason(self, after: Duration) -> String {
        let what = match self {
            Step::Resolve => "The name was not resolved",
            Step::Connect => "No connection came about",
            Step::Handshake => "The TLS handshake was not done",
            Step::Answer => "No answer began",
        };
        format!("{what} within {:.1} s.", after.as_secs_f64())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.title(), self.reason())
    }
}
