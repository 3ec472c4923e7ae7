//! Checks of the certificate that a server presents.
//!
//! | check | passes if |
//! |---|---|
//! | `certificate_name` | the certificate has the requested name |
//! | `certificate_chain` | the received certificates lead to a trusted root |
//! | `certificate_key` | the key is of a supported kind, and an RSA key has 2,048 bits or more |
//! | `certificate_order` | TLS 1.3 (RFC 8446, 4.4.2): issuer after subject; only a warning |
//! | `certificate_order_tls12` | TLS 1.2 (RFC 5246, 7.4.2): issuer after subject |
//! | `certificate_expiry` | the certificate is valid now and for `expiryMargin` from now |
//! | `certificate_fingerprint` | the fingerprint is one of the configured fingerprints |
//! | `certificate_scts` | the certificate has enough embedded SCTs (RFC 6962, 3.3) |
//! | `certificate_staple` | a stapled OCSP response proves that the certificate is not revoked |
//!
//! Clients refuse a chain with a certificate that cannot be parsed, so `certificate_chain` then
//! always fails. With `insecure`, names, chain, keys and order are not checked. Fingerprint and
//! SCTs are checked only if they are configured.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lucarne_ct::{Certificate, DerError, Fingerprint, SctError, SctList};
use lucarne_load::http::{Handshake, Trust};
use lucarne_settings::values::rfc3339;
use parking_lot::Mutex;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;

use super::options::TlsScenarioOptions;
use super::staple::{self, StapleError};

/// Names of the checks, in their order.
pub(super) const NAME: &str = "certificate_name";
pub(super) const CHAIN: &str = "certificate_chain";
pub(super) const KEY: &str = "certificate_key";
pub(super) const ORDER: &str = "certificate_order";
pub(super) const ORDER_TLS12: &str = "certificate_order_tls12";
pub(super) const EXPIRY: &str = "certificate_expiry";
pub(super) const FINGERPRINT: &str = "certificate_fingerprint";
pub(super) const SCTS: &str = "certificate_scts";
pub(super) const STAPLE: &str = "certificate_staple";

/// All checks of a certificate.
pub(super) const ALL: [&str; 9] = [
    NAME,
    CHAIN,
    KEY,
    ORDER,
    ORDER_TLS12,
    EXPIRY,
    FINGERPRINT,
    SCTS,
    STAPLE,
];

/// Checks of recommendations: TLS 1.3 only recommends an order (SHOULD), which TLS 1.2 requires.
pub(super) const WARNINGS: &[&str] = &[ORDER];

/// Result of each check.
pub(super) type Findings = Vec<(&'static str, Result<(), CertificateError>)>;

/// The reasons why a presented certificate fails a check.
#[derive(Debug, thiserror::Error)]
pub(super) enum CertificateError {
    #[error("the server presented no certificate")]
    Missing,
    /// Number of the certificate, from 1.
    #[error("certificate {number} cannot be parsed: {source}")]
    Malformed { number: usize, source: DerError },
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// Number of the certificate, from 1.
    #[error("certificate {0} is not followed by the certificate of its issuer")]
    Order(usize),
    #[error(transparent)]
    Validity(#[from] ValidityError),
    /// The fingerprint is not one of the configured fingerprints.
    #[error("expected the SHA-256 fingerprint {}, found {found}", any_of(.expected))]
    Fingerprint {
        expected: Vec<Fingerprint>,
        found: Fingerprint,
    },
    #[error(transparent)]
    Scts(#[from] EmbeddedSctsError),
    #[error(transparent)]
    Staple(#[from] StapleError),
}

/// The reasons why a certificate is not trusted for the requested name.
#[derive(Debug, thiserror::Error)]
pub(super) enum TrustError {
    /// A certificate above the leaf has expired; the validity of the leaf is a separate check.
    #[error("a certificate above the leaf has expired")]
    ChainExpired,
    #[error("the issuer is not trusted: configure the root of the issuer (`ca`)")]
    UnknownIssuer,
    #[error("{}", lucarne_net::explain(.0))]
    Tls(#[source] rustls::Error),
}

/// The reasons why a certificate is not valid for long enough. Times are since 1970.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ValidityError {
    #[error("the notBefore of the certificate cannot be parsed")]
    NotBefore,
    #[error("the notAfter of the certificate cannot be parsed")]
    NotAfter,
    #[error("the certificate is not valid before {}", rfc3339(begin.as_millis() as u64))]
    NotYetValid { begin: Duration },
    #[error("the certificate expired at {}", rfc3339(end.as_millis() as u64))]
    Expired { end: Duration },
    #[error(
        "the certificate expires at {}, in {:.1} days: expected at least {:.1} days",
        rfc3339(end.as_millis() as u64),
        days(*left),
        days(*margin)
    )]
    Expiring {
        end: Duration,
        left: Duration,
        margin: Duration,
    },
}

/// The reasons why a certificate does not have enough SCTs.
#[derive(Debug, thiserror::Error)]
pub(super) enum EmbeddedSctsError {
    #[error("the SCT list cannot be parsed: {0}")]
    Extension(#[from] DerError),
    #[error("the SCT list cannot be parsed: {0}")]
    List(#[from] SctError),
    #[error("expected {required} SCTs, found {found}")]
    TooFew { found: usize, required: u32 },
}

/// Checks certificates. The same chain is checked once per second, because its signatures cost more
/// than the handshake.
#[derive(Debug)]
pub(super) struct Examiner {
    /// Expected name and trusted roots; `None` skips both checks.
    trust: Option<(ServerName<'static>, Trust)>,
    margin: Duration,
    fingerprints: Vec<Fingerprint>,
    min_scts: u32,
    last: Mutex<Option<Known>>,
}

#[derive(Clone, Debug)]
struct Known {
    handshake: Handshake,
    findings: Arc<Findings>,
    since: Instant,
}

impl Examiner {
    pub(super) fn new(
        options: &TlsScenarioOptions,
        trust: Option<(ServerName<'static>, Trust)>,
    ) -> Self {
        Self {
            trust,
            margin: options.expiry_margin.map_or(Duration::ZERO, |days| days.0),
            fingerprints: options.fingerprint.clone(),
            min_scts: options.min_scts,
            last: Mutex::new(None),
        }
    }

    /// Checks the certificates of a server.
    pub(super) fn examine(&self, handshake: &Handshake) -> Arc<Findings> {
        /// The findings about a certificate are reused for this time.
        const FRESH: Duration = Duration::from_secs(1);
        fn seen(of: &Handshake) -> (&[CertificateDer<'static>], &str, Option<&[u8]>) {
            (&of.certificates, of.version, of.staple.as_deref())
        }
        let last = self.last.lock();
        if let Some(known) = &*last
            && known.since.elapsed() < FRESH
            && seen(&known.handshake) == seen(handshake)
        {
            return known.findings.clone();
        }
        drop(last);
        let findings = Arc::new(self.look(handshake, SystemTime::now()));
        *self.last.lock() = Some(Known {
            handshake: handshake.clone(),
            findings: findings.clone(),
            since: Instant::now(),
        });
        findings
    }

    /// Checks the certificates of a handshake.
    fn look(&self, handshake: &Handshake, now: SystemTime) -> Findings {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let certificates = &handshake.certificates;
        let all = match parse(certificates) {
            Ok(parsed) => parsed,
            Err(error) => return vec![(CHAIN, Err(error))],
        };
        let (Some((leaf, others)), Some(parsed)) = (certificates.split_first(), all.first()) else {
            return vec![(CHAIN, Err(CertificateError::Missing))];
        };
        let mut findings = Findings::new();
        if let Some((name, trust)) = &self.trust {
            let names = ParsedCertificate::try_from(leaf);
            let names = names.and_then(|leaf| verify_server_name(&leaf, name));
            let time = UnixTime::since_unix_epoch(within(parsed, now));
            let chain = trust.verify(leaf, others, time);
            for (check, outcome) in [(NAME, names), (CHAIN, chain), (KEY, trust.check_key(leaf))] {
                let outcome = outcome.map_err(TrustError::from);
                findings.push((check, outcome.map_err(Into::into)));
            }
            let check = match handshake.version {
                "TLSv1.2" => ORDER_TLS12,
                _ => ORDER,
            };
            findings.push((check, order(&all)));
        }
        let validity = self.validity(parsed, now);
        findings.push((EXPIRY, validity.map_err(Into::into)));
        if !self.fingerprints.is_empty() {
            findings.push((FINGERPRINT, self.fingerprint(leaf)));
        }
        if self.min_scts > 0 {
            findings.push((SCTS, self.scts(parsed).map_err(Into::into)));
        }
        if let Some(staple) = &handshake.staple
            && let Some(outcome) = self.staple(staple, &all, now)
        {
            findings.push((STAPLE, outcome.map_err(Into::into)));
        }
        findings
    }

    /// Checks the stapled response. The issuer is among the presented or the trusted certificates.
    fn staple(
        &self,
        response: &[u8],
        certificates: &[Certificate<'_>],
        now: Duration,
    ) -> Option<Result<(), StapleError>> {
        let (leaf, others) = certificates.split_first()?;
        let trust = self.trust.iter();
        let trusted = trust.flat_map(|(_, trust)| trust.certificates());
        let trusted = trusted.filter_map(|der| Certificate::parse(der).ok());
        let issuers = others.iter().copied().chain(trusted);
        let issuers = issuers.filter(|issuer| issuer.subject() == leaf.issuer());
        let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        staple::check(response, leaf, issuers, now_ms)
    }

    fn validity(&self, certificate: &Certificate<'_>, now: Duration) -> Result<(), ValidityError> {
        let time = |ms: Option<i64>| ms.map(|ms| Duration::from_millis(ms.max(0) as u64));
        let begin = time(certificate.not_before()).ok_or(ValidityError::NotBefore)?;
        let end = time(certificate.not_after()).ok_or(ValidityError::NotAfter)?;
        if now < begin {
            return Err(ValidityError::NotYetValid { begin });
        }
        if now > end {
            return Err(ValidityError::Expired { end });
        }
        if now + self.margin > end {
            return Err(ValidityError::Expiring {
                end,
                left: end - now,
                margin: self.margin,
            });
        }
        Ok(())
    }

    fn fingerprint(&self, leaf: &[u8]) -> Result<(), CertificateError> {
        let found = Fingerprint::of(leaf);
        if self.fingerprints.contains(&found) {
            Ok(())
        } else {
            Err(CertificateError::Fingerprint {
                expected: self.fingerprints.clone(),
                found,
            })
        }
    }

    fn scts(&self, certificate: &Certificate<'_>) -> Result<(), EmbeddedSctsError> {
        let list = certificate
            .embedded_scts()?
            .map(SctList::parse)
            .transpose()?;
        let (found, required) = (list.map_or(0, |list| list.iter().count()), self.min_scts);
        if found >= required as usize {
            Ok(())
        } else {
            Err(EmbeddedSctsError::TooFew { found, required })
        }
    }
}

fn days(time: Duration) -> f64 {
    time.as_secs_f64() / 86_400.0
}

/// Lists fingerprints for a message.
fn any_of(fingerprints: &[Fingerprint]) -> String {
    let texts: Vec<String> = fingerprints.iter().map(Fingerprint::to_string).collect();
    texts.join(" or ")
}

/// Returns a time at which the certificate is valid, as near to now as possible, because the
/// validity is a separate check.
fn within(certificate: &Certificate<'_>, now: Duration) -> Duration {
    let seconds = |ms: Option<i64>| ms.map(|ms| ms.max(0) as u64 / 1000);
    let now = now.as_secs();
    let begin = seconds(certificate.not_before()).unwrap_or(now);
    let end = seconds(certificate.not_after()).unwrap_or(now).max(begin);
    Duration::from_secs(now.clamp(begin, end))
}

/// Checks that the issuer follows each certificate except the last. Clients of TLS 1.2, and simple
/// clients of TLS 1.3, build the chain in this order.
fn order(certificates: &[Certificate<'_>]) -> Result<(), CertificateError> {
    let follows = |pair: &[Certificate<'_>]| pair[0].issuer() == pair[1].subject();
    match certificates.windows(2).position(|pair| !follows(pair)) {
        None => Ok(()),
        Some(at) => Err(CertificateError::Order(at + 1)),
    }
}

/// Parses all certificates. The verifier skips malformed certificates that the path does not need,
/// but OpenSSL and Go refuse a chain with any of them.
fn parse<'c>(
    certificates: &'c [CertificateDer<'_>],
) -> Result<Vec<Certificate<'c>>, CertificateError> {
    let parse = |(index, der): (usize, &'c CertificateDer<'_>)| {
        let number = index + 1;
        Certificate::parse(der).map_err(|source| CertificateError::Malformed { number, source })
    };
    certificates.iter().enumerate().map(parse).collect()
}

impl From<rustls::Error> for TrustError {
    fn from(error: rustls::Error) -> Self {
        use rustls::CertificateError::{Expired, ExpiredContext, UnknownIssuer};
        match error {
            // The leaf is verified at a time at which the leaf is valid: another certificate has
            // expired.
            rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. }) => {
                TrustError::ChainExpired
            }
            rustls::Error::InvalidCertificate(UnknownIssuer) => TrustError::UnknownIssuer,
            error => TrustError::Tls(error),
        }
    }
}
