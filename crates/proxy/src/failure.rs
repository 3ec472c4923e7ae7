//! Failures of a request, with texts for the client.

use std::net::IpAddr;
use std::time::Duration;

use http::StatusCode;
use lucarne_mint::store::{Host, StoreError};

use crate::certificate_summary::CertificateSummary;
use crate::checks::ChecksFull;
use crate::limits::FIELDS;
use crate::pattern::HostPattern;
use crate::upstream_proxy::UpstreamProxy;

/// Reasons why the proxy refuses to connect to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The host matches this pattern of the deny list.
    Denied(Host, HostPattern),
    /// The host is not on the allow list.
    NotAllowed(Host),
    /// The port is not allowed.
    Port(u16),
    /// The address is not public; the text names its kind.
    Address(IpAddr, &'static str),
    /// The request would come back to this proxy.
    Loop,
}

/// Reasons why there is no response from a server. Clones are cheap: several requests may report
/// the same connection failure.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The request is not valid for a proxy; the reason.
    Request(String),
    /// The head of the request is invalid or too large; its status, and a sentence with the reason.
    Head(StatusCode, String),
    /// The request has an unsupported transfer coding; a sentence that names the coding.
    Coding(String),
    /// The body of the request ended early or is not valid; a sentence with the reason.
    Body(String),
    /// The response has an unsupported transfer coding; a sentence that names the coding.
    ServerCoding(String),
    /// The response is not valid HTTP, or exceeds a limit; a sentence with the reason.
    Response(String),
    /// The client sent no credentials, or unknown ones.
    Authentication,
    /// The password was not checked, because too many checks are pending.
    Checks(ChecksFull),
    /// The rules of the proxy refuse the request.
    Refused(Refusal),
    /// The name cannot be resolved; the resolver's error.
    Resolve(String),
    /// No address of the host accepts connections; the system's error.
    Connect(String),
    /// The certificate does not prove the server's identity; the reason, and a summary of the
    /// certificate.
    Certificate(String, Option<Box<CertificateSummary>>),
    /// The TLS handshake with the server failed; the reason.
    Tls(String),
    /// The server closed the connection, or its response was not HTTP; details.
    Closed(String),
    /// The server took too long; the step, and the time limit.
    Timeout(Step, Duration),
    /// The upstream proxy provided no connection; its name, and the reason.
    Upstream(String, UpstreamFailure),
    /// The proxy has no certificate for the host.
    Mint(StoreError),
}

/// Reasons why an upstream proxy provided no connection.
#[derive(Clone, Debug)]
pub enum UpstreamFailure {
    /// The upstream proxy was not reached; the failure on the way to it.
    Unreached(Box<Failure>),
    /// The exchange with the upstream proxy broke off; contains a part of a sentence.
    Broke(&'static str),
    /// The upstream proxy refused; its status, and its `Proxy-Status`.
    Refused(StatusCode, Option<String>),
}

/// Steps with a time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Resolving the name.
    Resolve,
    /// Connecting to the server.
    Connect,
    /// The TLS handshake with the server.
    Handshake,
    /// The head of the response.
    Response,
}

impl Failure {
    /// Returns the status of the proxy's response.
    pub fn status(&self) -> StatusCode {
        match self {
            Failure::Request(_) | Failure::Body(_) => StatusCode::BAD_REQUEST,
            Failure::Head(status, _) => *status,
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

    /// Returns the failure of a request whose head exceeds a limit.
    pub(crate) fn large_head(head_bytes: usize) -> Self {
        Failure::Head(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            format!(
                "The head is larger than {head_bytes} bytes (limits.maxheader), or has more than \
                 {FIELDS} fields."
            ),
        )
    }

    /// Returns the failure of a response whose head exceeds a limit.
    pub(crate) fn large_response_head(head_bytes: usize) -> Self {
        Failure::Response(format!(
            "The head of the response is larger than {head_bytes} bytes (limits.maxheader)."
        ))
    }

    /// Returns a word for metrics and for the `error` of `Proxy-Status` (most are registered by RFC
    /// 9209, section 2.3).
    pub fn kind(&self) -> &'static str {
        match self {
            Failure::Request(_) | Failure::Head(..) | Failure::Coding(_) | Failure::Body(_) => {
                "http_request_error"
            }
            Failure::Response(_) => "http_protocol_error",
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
            Failure::Timeout(Step::Response, _) => "http_response_timeout",
            Failure::Upstream(_, trouble) => trouble.kind(),
            Failure::Mint(_) => "proxy_internal_error",
        }
    }

    /// Returns the failure in a few words.
    pub fn title(&self) -> &'static str {
        match self {
            Failure::Request(_) => "This request is not valid for a proxy",
            Failure::Head(..) => "The head of the request is not accepted",
            Failure::Response(_) => "The server's response is not accepted",
            Failure::Coding(_) => "The request is encoded in a way that is not supported",
            Failure::Body(_) => "The body of the request is incomplete or invalid",
            Failure::ServerCoding(_) => "The response is encoded in a way that is not supported",
            Failure::Authentication => "The proxy requires a user name and a password",
            Failure::Checks(_) => "Too many passwords wait to be checked",
            Failure::Refused(_) => "The proxy does not connect to this host",
            Failure::Resolve(_) => "The host has no address",
            Failure::Connect(_) => "The host cannot be connected to",
            Failure::Certificate(..) => "The server's certificate is not valid for this host",
            Failure::Tls(_) => "TLS with the server failed",
            Failure::Closed(_) => "The server sent no response",
            Failure::Timeout(..) => "The server took too long",
            Failure::Upstream(..) => "The upstream proxy provided no connection to this host",
            Failure::Mint(_) => "The proxy has no certificate for this host",
        }
    }

    /// Returns the failure in a sentence.
    pub fn reason(&self) -> String {
        match self {
            Failure::Request(why)
            | Failure::Head(_, why)
            | Failure::Response(why)
            | Failure::Coding(why)
            | Failure::Body(why)
            | Failure::ServerCoding(why)
            | Failure::Resolve(why)
            | Failure::Connect(why)
            | Failure::Certificate(why, _)
            | Failure::Tls(why)
            | Failure::Closed(why) => why.clone(),
            Failure::Authentication => {
                "The request has no valid Proxy-Authorization header.".to_owned()
            }
            Failure::Checks(ChecksFull::OfClient) => {
                "Too many password checks are pending for your address: your password was not \
                 checked."
                    .to_owned()
            }
            Failure::Checks(ChecksFull::OfAll) => {
                "Too many password checks of other clients are pending: your password was not \
                 checked."
                    .to_owned()
            }
            Failure::Refused(refusal) => refusal.reason(),
            Failure::Timeout(step, after) => step.reason(*after),
            Failure::Upstream(proxy, trouble) => trouble.reason(proxy),
            Failure::Mint(error) => error.to_string(),
        }
    }

    /// Returns the remedy.
    pub fn advice(&self) -> &'static str {
        match self {
            Failure::Request(_) => {
                "Set this address as HTTP proxy of your client. GET /ca.pem gives the CA \
                 certificate to trust."
            }
            Failure::Head(..) => {
                "Correct the request. If a large head is intended, raise limits.maxheader of the \
                 proxy, or forward the host by a rule (action: tunnel)."
            }
            Failure::Response(_) => {
                "Check the server: its response must be valid (RFC 9112). If a large head is \
                 intended, raise limits.maxheader of the proxy. To let the client handle the \
                 response, forward the host by a rule (action: tunnel)."
            }
            Failure::Coding(_) | Failure::ServerCoding(_) => {
                "Compress with Content-Encoding instead of Transfer-Encoding, or forward the \
                 host by a rule (action: tunnel)."
            }
            Failure::Body(_) => {
                "Check the client: it must send the complete body in time, and each chunk must be \
                 valid (RFC 9112, section 7.1)."
            }
            Failure::Authentication => {
                "Configure a user name and a password for the proxy in the client."
            }
            Failure::Refused(refusal) => refusal.advice(),
            Failure::Resolve(_) => {
                "Check the spelling of the name, and whether the proxy's machine can resolve it."
            }
            Failure::Connect(_) => {
                "Check whether the server runs, whether the port is correct, and whether a \
                 firewall blocks the proxy."
            }
            Failure::Certificate(..) => {
                "If the server is yours: renew its certificate, send the intermediates, or give \
                 the proxy its CA (upstream.ca, --upstream-ca). To let clients \
                 check the certificate themselves, forward the host by a rule (action: tunnel). To \
                 accept this certificate, or any certificate of this host, give the proxy its \
                 fingerprint (--upstream-fingerprint) or the host (--insecure-host)."
            }
            Failure::Tls(_) => {
                "Check whether the port speaks TLS, and which versions: the proxy speaks 1.2 and \
                 1.3. If the server requires a client certificate, give the proxy one \
                 (upstream.certificates), or forward the host by a rule (action: tunnel)."
            }
            Failure::Closed(_) => {
                "Try again. If the port does not speak HTTP, forward the host by a rule \
                 (action: tunnel)."
            }
            Failure::Timeout(..) => {
                "Try again. If the server needs more time, raise the timeouts of the proxy."
            }
            Failure::Upstream(_, trouble) => trouble.advice(),
            Failure::Mint(StoreError::Overloaded { .. }) | Failure::Checks(_) => {
                "Try again in a few seconds."
            }
            Failure::Mint(_) => "Check the proxy's log, its CA and its store directory.",
        }
    }

    /// Returns the `Proxy-Status` field (RFC 9209): the failure and, if there is one, the upstream
    /// proxy. The field that the upstream proxy sent comes first.
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

    /// Returns the summary of the server's certificate if the certificate failed.
    pub fn facts(&self) -> Option<&CertificateSummary> {
        match self {
            Failure::Certificate(_, facts) => facts.as_deref(),
            Failure::Upstream(_, UpstreamFailure::Unreached(failure)) => failure.facts(),
            _ => None,
        }
    }
}

/// Formats the parameters of `Proxy-Status` that name an upstream proxy and its status.
pub(crate) fn next_hop(proxy: impl std::fmt::Display, status: StatusCode) -> String {
    format!("next-hop=\"{proxy}\"; received-status={}", status.as_u16())
}

/// Returns whether a proxy requires other credentials. Some proxies send 401 for a wrong password,
/// as servers do.
fn unknown(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::PROXY_AUTHENTICATION_REQUIRED | StatusCode::UNAUTHORIZED
    )
}

impl UpstreamFailure {
    /// Returns the failure of a request that went to `proxy`.
    pub(crate) fn of(self, proxy: &UpstreamProxy) -> Failure {
        Failure::Upstream(proxy.to_string(), self)
    }

    /// Returns the status of the response to the client. The statuses 403 and 504 of the upstream
    /// proxy are kept. Other statuses become 502, because they concern only the two proxies: a
    /// client cannot remedy 407.
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
                format!("The upstream proxy {proxy} responded with {status}{said}.")
            }
        }
    }

    fn advice(&self) -> &'static str {
        match self {
            UpstreamFailure::Refused(status, _) if unknown(*status) => {
                "The operator of this proxy can configure the user name and the password that the \
                 upstream proxy requires (upstream.proxy)."
            }
            UpstreamFailure::Refused(StatusCode::FORBIDDEN, _) => {
                "The operator of the upstream proxy can allow the host. The operator of this proxy \
                 can select another route (upstream.proxy)."
            }
            UpstreamFailure::Refused(..) => {
                "The upstream proxy did not reach the host: check whether the host responds from \
                 there."
            }
            UpstreamFailure::Unreached(_) | UpstreamFailure::Broke(_) => {
                "Check whether the upstream proxy runs, and whether upstream.proxy has its \
                 address. This proxy does not connect directly instead."
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
            Refusal::Port(port) => format!("Port {port} is not allowed."),
            Refusal::Address(ip, kind) => format!("The address {ip} of the host is {kind}."),
            Refusal::Loop => "The target is this proxy itself: the request would loop.".to_owned(),
        }
    }

    fn advice(&self) -> &'static str {
        match self {
            Refusal::Denied(..) => "The operator of the proxy can change the list (deny, --deny).",
            Refusal::NotAllowed(_) => {
                "The operator of the proxy can add the host (allow, --allow)."
            }
            Refusal::Port(_) => {
                "The operator of the proxy can allow the port (ports, --allow-port)."
            }
            Refusal::Address(..) => {
                "The operator of the proxy can allow these addresses (networks, --allow-network, or \
                 private, --allow-private)."
            }
            Refusal::Loop => "Check the proxy settings of the program that sent this request.",
        }
    }
}

impl Step {
    fn reason(self, after: Duration) -> String {
        let what = match self {
            Step::Resolve => "The name was not resolved",
            Step::Connect => "No connection was established",
            Step::Handshake => "The TLS handshake did not finish",
            Step::Response => "No response began",
        };
        format!("{what} within {:.1} s.", after.as_secs_f64())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.title(), self.reason())
    }
}
