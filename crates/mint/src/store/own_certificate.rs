//! Certificates of other issuers, for the operator's own hosts.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use webpki::EndEntityCert;

use super::{Host, Minted};
use crate::{MintError, pem};

/// Parses a certificate chain (leaf first) and its key, both in PEM.
///
/// # Errors
/// If a part is missing or cannot be parsed.
pub fn read_pair(
    certificates: &[u8],
    key: &[u8],
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), MintError> {
    let chain = pem::certificates(certificates)?.into_iter();
    let key = PrivateKeyDer::try_from(pem::private_key(key)?).map_err(MintError::PrivateKey)?;
    Ok((chain.map(CertificateDer::from).collect(), key))
}

/// A certificate of another issuer, with its key. For the hosts that this certificate covers,
/// clients receive it instead of a minted certificate.
#[derive(Clone)]
pub struct OwnCertificate {
    minted: Arc<Minted>,
    concerns: Arc<dyn Fn(&Host) -> bool + Send + Sync>,
}

impl OwnCertificate {
    /// Parses a chain and its key, both in PEM, for all hosts that the certificate covers. `alpn`
    /// lists the protocols of servers, best first.
    ///
    /// # Errors
    /// If a part cannot be parsed, or the key does not belong to the certificate.
    pub fn from_pem(certificates: &[u8], key: &[u8], alpn: &[String]) -> Result<Self, MintError> {
        let (chain, key) = read_pair(certificates, key)?;
        let issuer = chain.get(1).or(chain.first()).cloned();
        let issuer = issuer.ok_or(MintError::Leaf("the certificate is missing"))?;
        EndEntityCert::try_from(&chain[0])
            .map_err(|_| MintError::Leaf("it is not a valid certificate of X.509 version 3"))?;
        let minted = Minted::new(chain, issuer, key, alpn)?;
        Ok(OwnCertificate {
            minted: Arc::new(minted),
            concerns: Arc::new(|_| true),
        })
    }

    /// Restricts the certificate to the hosts for which `concerns` returns `true`.
    pub fn only_for(self, concerns: impl Fn(&Host) -> bool + Send + Sync + 'static) -> Self {
        let concerns = Arc::new(concerns);
        OwnCertificate { concerns, ..self }
    }

    /// Returns whether the names in the certificate cover this host.
    pub fn covers(&self, host: &Host) -> bool {
        let name = ServerName::try_from(host.as_str());
        let leaf = EndEntityCert::try_from(&self.minted.chain[0]);
        match (name, leaf) {
            (Ok(name), Ok(leaf)) => leaf.verify_is_valid_for_subject_name(&name).is_ok(),
            _ => false,
        }
    }

    /// Returns the DNS names in the certificate, including wildcards.
    pub fn names(&self) -> Vec<String> {
        let leaf = EndEntityCert::try_from(&self.minted.chain[0]);
        leaf.map_or(Vec::new(), |leaf| {
            leaf.valid_dns_names().map(str::to_owned).collect()
        })
    }

    /// Returns the end of the certificate's validity.
    pub fn not_after(&self) -> SystemTime {
        self.minted.not_after
    }

    /// Returns the certificate if this host must be served with it.
    pub(super) fn serves(&self, host: &Host) -> Option<Arc<Minted>> {
        let served = (self.concerns)(host) && self.covers(host);
        served.then(|| self.minted.clone())
    }
}

impl fmt::Debug for OwnCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnCertificate")
            .field("names", &self.names())
            .finish_non_exhaustive()
    }
}
