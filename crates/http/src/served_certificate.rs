//! The certificate of a listener: its validity and its hosts.

use lucarne_ct::{Certificate, DerError};
use lucarne_log::LogConfig;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

use crate::timestamp::rfc3339;

/// A renewal is late if less than this time is left, in milliseconds. For certificates with a short
/// lifetime, this time is a quarter of the lifetime.
const LATE_MS: i64 = 14 * 24 * 3600 * 1000;

/// The certificate that every client gets.
#[derive(Clone, Debug)]
pub struct ServedCertificate {
    leaf: CertificateDer<'static>,
    not_before_ms: i64,
    not_after_ms: i64,
}

/// The state of a certificate at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Clients accept the certificate. A renewal is not due yet.
    Valid,
    /// Clients accept the certificate, but its renewal is late.
    Expiring,
    /// Clients refuse the certificate, because it is not valid yet.
    NotYet,
    /// Clients refuse the certificate, because it has expired.
    Expired,
}

impl ServedCertificate {
    pub(crate) fn read(leaf: CertificateDer<'static>) -> Result<Self, DerError> {
        let certificate = Certificate::parse(&leaf)?;
        let not_before_ms = certificate.not_before().unwrap_or(i64::MIN);
        let not_after_ms = certificate.not_after().unwrap_or(i64::MAX);
        Ok(ServedCertificate {
            not_before_ms,
            not_after_ms,
            leaf,
        })
    }

    /// Returns notAfter in Unix milliseconds; `i64::MAX` if the field is invalid.
    pub fn not_after_ms(&self) -> i64 {
        self.not_after_ms
    }

    /// Returns the state at a time in Unix milliseconds.
    pub fn validity(&self, now_ms: u64) -> Validity {
        let now_ms = now_ms as i64;
        let left = self.not_after_ms.saturating_sub(now_ms);
        let lifetime = self.not_after_ms.saturating_sub(self.not_before_ms);
        match () {
            () if left < 0 => Validity::Expired,
            () if now_ms < self.not_before_ms => Validity::NotYet,
            () if left < LATE_MS.min(lifetime / 4) => Validity::Expiring,
            () => Validity::Valid,
        }
    }

    /// Describes the state at a time as a sentence.
    pub fn describe(&self, now_ms: u64) -> String {
        let time = |ms: i64| rfc3339(u64::try_from(ms).unwrap_or_default());
        let not_after = time(self.not_after_ms);
        match self.validity(now_ms) {
            Validity::Valid => format!("the certificate is valid until {not_after}"),
            Validity::Expiring => format!("the certificate expires at {not_after}: renew it"),
            Validity::Expired => {
                format!("the certificate expired at {not_after}: clients refuse it; renew it")
            }
            Validity::NotYet => format!(
                "the certificate is not valid before {}: clients refuse it; check the clock",
                time(self.not_before_ms)
            ),
        }
    }

    /// Returns `true` if the certificate covers `host`, a name or an address.
    pub fn covers(&self, host: &str) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host);
        let leaf = ParsedCertificate::try_from(&self.leaf);
        match (name, leaf) {
            (Ok(name), Ok(leaf)) => verify_server_name(&leaf, &name).is_ok(),
            _ => false,
        }
    }
}

/// Returns the host of a prefix that uses TLS.
pub(crate) fn host(prefix: &str) -> Option<&str> {
    let authority = prefix.strip_prefix("https://")?.split('/').next()?;
    Some(match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    })
}

/// Returns the hosts of a log's prefixes that use TLS.
pub fn hosts(log: &LogConfig) -> Vec<&str> {
    let prefixes = [&log.submission_prefix, &log.monitoring_prefix];
    let hosts = prefixes.into_iter().filter_map(|prefix| host(prefix));
    hosts.collect()
}

#[cfg(test)]
mod tests {
    use lucarne_mint::{Authority, CaOptions, KeyType, LeafOptions, Time};

    use super::*;

    const DAY_MS: i64 = 24 * 3600 * 1000;

    #[test]
    fn the_end_is_reported_before_it_comes() {
        let ca = Authority::root(&CaOptions::named("Root", KeyType::EcdsaP256)).unwrap();
        let mut options = LeafOptions::for_names(["ct.example.com", "127.0.0.1"]).unwrap();
        options.not_before = Time::now();
        options.not_after = options.not_before.plus_days(90);
        let leaf = ca.issue(&options).unwrap();
        let served = ServedCertificate::read(leaf.into()).unwrap();
        let begin = served.not_before_ms;
        let state = |days: i64| served.validity((begin + days * DAY_MS) as u64);
        assert_eq!(state(-1), Validity::NotYet);
        assert_eq!(state(0), Validity::Valid);
        assert_eq!(state(75), Validity::Valid);
        assert_eq!(state(77), Validity::Expiring);
        assert_eq!(state(91), Validity::Expired);
        let words = served.describe((begin + 91 * DAY_MS) as u64);
        assert!(words.contains("clients refuse it; renew it"), "{words}");
        assert!(served.covers("ct.example.com"));
        assert!(served.covers("127.0.0.1"));
        assert!(!served.covers("other.example.com"));
        assert!(!served.covers("[::1]"));
    }
}
