//! Checks of the certificates that a proxy presents.
//!
//! | check | passes if |
//! |---|---|
//! | `certificate_name` | the certificate is for the requested host |
//! | `certificate_issuer` | the proxy's CA (`ca`) issued it, and it is valid now |
//! | `certificate_serial` | no other certificate of the run has its serial number |
//! | `certificate_once` | the host has presented no other certificate (with `once`) |
//!
//! Clients refuse a second certificate with the same issuer and serial number, so a repeated serial
//! number is always an error.

use std::collections::HashMap;
use std::sync::Arc;

use lucarne_ct::Fingerprint;
use lucarne_mint::der::{DerError, Reader, tag};
use lucarne_net::{Trust, explain};
use parking_lot::Mutex;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName, UnixTime};
use rustls::server::ParsedCertificate;

const NAME: &str = "certificate_name";
const ISSUER: &str = "certificate_issuer";
const SERIAL: &str = "certificate_serial";
const ONCE: &str = "certificate_once";

/// All checks of a certificate.
pub(super) const ALL: [&str; 4] = [NAME, ISSUER, SERIAL, ONCE];

/// Result of each check.
pub(super) type Findings = Vec<(&'static str, Result<(), CertificateError>)>;

/// The reasons why a certificate of the proxy fails a check.
#[derive(Debug, thiserror::Error)]
pub(super) enum CertificateError {
    #[error("{host} presented no certificate")]
    Missing { host: String },
    #[error("the certificate cannot be parsed: {0}")]
    Malformed(#[from] DerError),
    #[error("two certificates have the serial {0}")]
    SerialReused(String),
    #[error("{host} has presented another certificate before")]
    Another { host: String },
    #[error("cannot verify the certificate of {host}: {}", explain(source))]
    Tls { host: String, source: rustls::Error },
    /// The load test requested an invalid name.
    #[error("cannot verify the name {host}: {source}")]
    Host {
        host: String,
        source: InvalidDnsNameError,
    },
}

/// Checks the certificates of a run, and remembers them.
#[derive(Debug)]
pub(super) struct Certificates {
    /// Trusted issuers; `None` skips the checks of names and issuers.
    trust: Option<Trust>,
    once: bool,
    /// Last certificate of each host with its findings, so that it is not checked twice.
    hosts: Vec<Mutex<Option<Known>>>,
    serials: Mutex<HashMap<Vec<u8>, Fingerprint>>,
}

/// A certificate with its findings.
#[derive(Debug)]
struct Known {
    fingerprint: Fingerprint,
    findings: Arc<Findings>,
}

/// Findings about a certificate.
pub(super) struct CertificateFindings {
    pub(super) findings: Arc<Findings>,
    /// True for a certificate that was not seen before.
    pub(super) new: bool,
}

impl Certificates {
    /// Creates the state for this number of hosts, whose certificates one of `trust` must issue.
    pub(super) fn new(hosts: usize, trust: Option<Trust>, once: bool) -> Self {
        Self {
            trust,
            once,
            hosts: (0..hosts).map(|_| Mutex::new(None)).collect(),
            serials: Mutex::default(),
        }
    }

    /// Returns the number of different certificates.
    pub(super) fn count(&self) -> usize {
        self.serials.lock().len()
    }

    /// Checks the chain that this host presented.
    pub(super) fn see(
        &self,
        number: usize,
        host: &str,
        chain: &[CertificateDer<'_>],
    ) -> CertificateFindings {
        let Some((leaf, others)) = chain.split_first() else {
            let host = host.to_owned();
            return CertificateFindings {
                findings: Arc::new(vec![(ISSUER, Err(CertificateError::Missing { host }))]),
                new: false,
            };
        };
        let fingerprint = Fingerprint::of(leaf);
        let mut last = self.hosts[number % self.hosts.len()].lock();
        if let Some(known) = &*last
            && known.fingerprint == fingerprint
        {
            return CertificateFindings {
                findings: known.findings.clone(),
                new: false,
            };
        }
        let mut findings = Findings::new();
        if let Some(trust) = &self.trust {
            let (name, issuer) = verify(host, leaf, others, trust);
            findings.extend([(NAME, name), (ISSUER, issuer)]);
        }
        let (serial, new) = self.serial(leaf, fingerprint);
        findings.push((SERIAL, serial));
        if self.once {
            let once = if last.is_none() {
                Ok(())
            } else {
                let host = host.to_owned();
                Err(CertificateError::Another { host })
            };
            findings.push((ONCE, once));
        }
        let findings = Arc::new(findings);
        *last = Some(Known {
            fingerprint,
            findings: findings.clone(),
        });
        CertificateFindings { findings, new }
    }

    /// Checks that the serial number is unique. Also returns whether the certificate is new.
    fn serial(
        &self,
        leaf: &[u8],
        fingerprint: Fingerprint,
    ) -> (Result<(), CertificateError>, bool) {
        /// Limit of remembered serial numbers: 100 MB.
        const MOST: usize = 1_000_000;
        let serial = match serial(leaf) {
            Ok(serial) => serial,
            Err(error) => return (Err(error.into()), false),
        };
        let mut serials = self.serials.lock();
        match serials.get(serial) {
            Some(known) if *known == fingerprint => (Ok(()), false),
            Some(_) => {
                let serial = hex::encode(serial);
                (Err(CertificateError::SerialReused(serial)), true)
            }
            None => {
                if serials.len() < MOST {
                    serials.insert(serial.to_vec(), fingerprint);
                }
                (Ok(()), true)
            }
        }
    }
}

/// Returns the content of a certificate's serial number.
fn serial(certificate: &[u8]) -> Result<&[u8], DerError> {
    let mut certificate = Reader::new(certificate).any("Certificate")?.reader();
    let mut tbs = certificate.any("tbsCertificate")?.reader();
    tbs.optional(tag::context(0), "version")?;
    Ok(tbs.any("serialNumber")?.value)
}

/// Verifies name and issuer.
fn verify(
    host: &str,
    leaf: &CertificateDer<'_>,
    others: &[CertificateDer<'_>],
    trust: &Trust,
) -> (Result<(), CertificateError>, Result<(), CertificateError>) {
    let tls = |source| CertificateError::Tls {
        host: host.to_owned(),
        source,
    };
    let parsed = match ParsedCertificate::try_from(leaf) {
        Ok(parsed) => parsed,
        Err(error) => return (Err(tls(error.clone())), Err(tls(error))),
    };
    let name = match ServerName::try_from(host) {
        Ok(name) => verify_server_name(&parsed, &name).map_err(tls),
        Err(source) => Err(CertificateError::Host {
            host: host.to_owned(),
            source,
        }),
    };
    let issuer = trust.verify(leaf, others, UnixTime::now());
    (name, issuer.map_err(tls))
}

#[cfg(test)]
mod tests {
    use lucarne_mint::{Authority, CaOptions, KeyType, LeafOptions};

    use super::*;

    fn ca() -> Authority {
        Authority::root(&CaOptions::local(KeyType::EcdsaP256).unwrap()).unwrap()
    }

    fn leaf(ca: &Authority, name: &str, serial: Option<&[u8]>) -> Vec<CertificateDer<'static>> {
        let options = LeafOptions {
            serial: serial.map(<[u8]>::to_vec),
            ..LeafOptions::for_names([name]).unwrap()
        };
        vec![CertificateDer::from(ca.issue(&options).unwrap())]
    }

    fn failed(found: &CertificateFindings) -> Vec<&'static str> {
        let all = found.findings.iter();
        all.filter(|(_, outcome)| outcome.is_err())
            .map(|(check, _)| *check)
            .collect()
    }

    #[test]
    fn each_thing_that_can_be_wrong_is_a_check_of_its_own() {
        let ca = ca();
        let root = CertificateDer::from(ca.cert_der().to_vec());
        let trust = Trust::none().with([root]).unwrap();
        let certificates = Certificates::new(2, Some(trust), true);
        let one = leaf(&ca, "a.test", Some(&[7]));
        let found = certificates.see(0, "a.test", &one);
        assert!(found.new && failed(&found).is_empty());
        let again = certificates.see(0, "a.test", &one);
        assert!(!again.new && failed(&again).is_empty());

        let second = leaf(&ca, "a.test", None);
        assert_eq!(failed(&certificates.see(0, "a.test", &second)), [ONCE]);
        let other = leaf(&ca, "c.test", None);
        assert_eq!(failed(&certificates.see(1, "b.test", &other)), [NAME]);
        let reused = leaf(&ca, "b.test", Some(&[7]));
        let found = certificates.see(1, "b.test", &reused);
        assert_eq!(failed(&found), [SERIAL, ONCE]);
        let stranger = leaf(&super::tests::ca(), "b.test", None);
        let found = certificates.see(1, "b.test", &stranger);
        assert_eq!(failed(&found), [ISSUER, ONCE]);
        assert_eq!(failed(&certificates.see(1, "b.test", &[])), [ISSUER]);
        assert_eq!(certificates.count(), 4);
    }
}
