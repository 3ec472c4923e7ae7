//! Checks of the certificate that a server presents.
//!
//! | check | passes if |
//! |---|---|
//! | `certificate_name` | the certificate has the requested name |
//! | `certificate_chain` | the received certificates lead to a trusted root |
//! | `certificate_order` | TLS 1.3 (RFC 8446, 4.4.2): issuer after subject; only a warning |
//! | `certificate_order_tls12` | TLS 1.2 (RFC 5246, 7.4.2): issuer after subject |
//! | `certificate_expiry` | the certificate is valid now and for `expiryMargin` from now |
//! | `certificate_fingerprint` | the fingerprint is one of the configured fingerprints |
//! | `certificate_scts` | the certificate has enough embedded SCTs (RFC 6962, 3.3) |
//!
//! With `insecure`, names, chain and order are not checked. Fingerprint and SCTs are checked only
//! if they are configured.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lucarne_ct::{Certificate, Fingerprint, SctList};
use lucarne_load::http::{Handshake, Trust};
use parking_lot::Mutex;
use rustls::CertificateError;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;

use super::options::TlsScenarioOptions;

/// Names of the checks, in their order.
pub(super) const NAME: &str = "certificate_name";
pub(super) const CHAIN: &str = "certificate_chain";
pub(super) const ORDER: &str = "certificate_order";
pub(super) const ORDER_TLS12: &str = "certificate_order_tls12";
pub(super) const EXPIRY: &str = "certificate_expiry";
pub(super) const FINGERPRINT: &str = "certificate_fingerprint";
pub(super) const SCTS: &str = "certificate_scts";

/// Checks of recommendations: TLS 1.3 only recommends an order (SHOULD), which TLS 1.2 requires.
pub(super) const WARNINGS: &[&str] = &[ORDER];

/// Result of each check.
pub(super) type Findings = Vec<(&'static str, Result<(), String>)>;

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
    certificates: Vec<CertificateDer<'static>>,
    /// Version of TLS.
    version: &'static str,
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
        let (certificates, version) = (&handshake.certificates, handshake.version);
        let known = self.last.lock().clone();
        if let Some(known) = known
            && known.since.elapsed() < FRESH
            && (&known.certificates, known.version) == (certificates, version)
        {
            return known.findings;
        }
        let findings = Arc::new(self.look(certificates, version, SystemTime::now()));
        *self.last.lock() = Some(Known {
            certificates: certificates.clone(),
            version,
            findings: findings.clone(),
            since: Instant::now(),
        });
        findings
    }

    /// Checks certificates, the leaf first, that were presented in this version of TLS.
    fn look(
        &self,
        certificates: &[CertificateDer<'_>],
        version: &str,
        now: SystemTime,
    ) -> Findings {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let Some((leaf, others)) = certificates.split_first() else {
            return vec![(CHAIN, Err("the server presented no certificate".into()))];
        };
        let parsed = match Certificate::parse(leaf) {
            Ok(parsed) => parsed,
            Err(error) => return vec![(CHAIN, Err(format!("it cannot be parsed: {error}")))],
        };
        let mut findings = Findings::new();
        if let Some((name, trust)) = &self.trust {
            let (names, chain) = trusted(leaf, others, name, trust, within(&parsed, now));
            findings.push((NAME, names));
            findings.push((CHAIN, chain));
            let check = match version {
                "TLSv1.2" => ORDER_TLS12,
                _ => ORDER,
            };
            findings.push((check, order(certificates)));
        }
        findings.push((EXPIRY, self.expiry(&parsed, now)));
        if !self.fingerprints.is_empty() {
            findings.push((FINGERPRINT, self.fingerprint(leaf)));
        }
        if self.min_scts > 0 {
            findings.push((SCTS, self.scts(&parsed)));
        }
        findings
    }

    fn expiry(&self, certificate: &Certificate<'_>, now: Duration) -> Result<(), String> {
        let time = |ms: Option<i64>| ms.map(|ms| Duration::from_millis(ms.max(0) as u64));
        let begin = time(certificate.not_before()).ok_or("its notBefore cannot be parsed")?;
        let end = time(certificate.not_after())
            .ok_or("the notAfter of the certificate cannot be parsed")?;
        let shown = lucarne_settings::values::rfc3339(end.as_millis() as u64);
        if now < begin {
            return Err("it is not valid yet".into());
        }
        if now > end {
            return Err(format!("it has expired at {shown}"));
        }
        if now + self.margin > end {
            let days = (end - now).as_secs_f64() / 86_400.0;
            return Err(format!("it expires at {shown}, in {days:.1} days"));
        }
        Ok(())
    }

    fn fingerprint(&self, leaf: &[u8]) -> Result<(), String> {
        let found = Fingerprint::of(leaf);
        if self.fingerprints.contains(&found) {
            Ok(())
        } else {
            Err(format!("its SHA-256 is {found}"))
        }
    }

    fn scts(&self, certificate: &Certificate<'_>) -> Result<(), String> {
        let list = certificate.embedded_scts();
        let list = list.map_err(|error| format!("its SCT list cannot be parsed: {error}"))?;
        let count = match list.map(SctList::parse) {
            None => 0,
            Some(Ok(list)) => list.iter().count(),
            Some(Err(error)) => return Err(format!("its SCT list cannot be parsed: {error}")),
        };
        if count >= self.min_scts as usize {
            Ok(())
        } else {
            Err(format!("it has {count} SCTs, not {}", self.min_scts))
        }
    }
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

/// Verifies the name, and the chain to a root.
fn trusted(
    leaf: &CertificateDer<'_>,
    others: &[CertificateDer<'_>],
    name: &ServerName<'_>,
    trust: &Trust,
    now: Duration,
) -> (Result<(), String>, Result<(), String>) {
    let parsed = match ParsedCertificate::try_from(leaf) {
        Ok(parsed) => parsed,
        Err(error) => {
            let why = format!("it cannot be parsed: {error}");
            return (Err(why.clone()), Err(why));
        }
    };
    let names = verify_server_name(&parsed, name);
    let chain = trust.verify(leaf, others, UnixTime::since_unix_epoch(now));
    (
        names.map_err(|error| said(&error)),
        chain.map_err(|error| said(&error)),
    )
}

/// Checks that the issuer follows each certificate except the last. Clients of TLS 1.2, and simple
/// clients of TLS 1.3, build the chain in this order.
fn order(certificates: &[CertificateDer<'_>]) -> Result<(), String> {
    let parsed = certificates
        .iter()
        .map(|der| Certificate::parse(der))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("a certificate of the chain cannot be read: {error}"))?;
    let follows = |pair: &[Certificate<'_>]| pair[0].issuer() == pair[1].subject();
    match parsed.windows(2).position(|pair| !follows(pair)) {
        None => Ok(()),
        Some(at) => Err(format!(
            "certificate {} is not followed by that of its issuer",
            at + 1
        )),
    }
}

fn said(error: &rustls::Error) -> String {
    match error {
        // The certificate itself is checked at a time at which it is valid.
        rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "a certificate that it leads to has expired".into(),
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "its issuer is not trusted: configure its root (`ca`)".into()
        }
        error => lucarne_net::explain(error),
    }
}
