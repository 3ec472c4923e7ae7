//! Certificates that somebody else issued, for hosts of theirs.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use webpki::EndEntityCert;

use super::{Host, Minted};
use crate::{MintError, pem};

/// Reads a certificate chain, the certificate first, and its key, both in PEM.
///
/// # Errors
/// What cannot be read, or is not there.
pub fn read_pair(
    certificates: &[u8],
    key: &[u8],
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), MintError> {
    let chain = pem::certificates(certificates)?.into_iter();
    let key = PrivateKeyDer::try_from(pem::private_key(key)?)
        .map_err(|why| MintError::Pem(format!("the private key cannot be read: {why}")))?;
    Ok((chain.map(CertificateDer::from).collect(), key))
}

/// A certificate with its key, served to clients instead of a minted one, for
/// the hosts that it covers.
#[derive(Clone)]
pub struct OwnCertificate {
    minted: Arc<Minted>,
    concerns: Arc<dyn Fn(&Host) -> bool + Send + Sync>,
}

impl OwnCertificate {
    /// The certificate of a chain and its key, both in PEM, for all hosts that the certificate
    /// covers. `alpn`: the protocols that servers offer, best first.
    ///
    /// # Errors
    /// What cannot be read, or a key that is not the certificate's.
    pub fn from_pem(certificates: &[u8], key: &[u8], alpn: &[String]) -> Result<Self, MintError> {
        let (chain, key) = read_pair(certificates, key)?;
        let issuer = chain.get(1).or(chain.first()).cloned();
        let issuer = issuer.ok_or(MintError::Leaf("there is none"))?;
        EndEntityCert::try_from(&chain[0])
            .map_err(|_| MintError::Leaf("it cannot be read as X.509 of version 3"))?;
        let minted = Minted::new(chain, issuer, key, alpn)?;
        Ok(OwnCertificate {
            minted: Arc::new(minted),
            concerns: Arc::new(|_| true),
        })
    }

    /// The same, for those hosts alone of which `concerns` is true.
    pub fn only_for(self, concerns: impl Fn(&Host) -> bool + Send + Sync + 'static) -> Self {
        let concerns = Arc::new(concerns);
        OwnCertificate { concerns, ..self }
    }

    /// Returns whether clients would take it for this host's, as far as names go.
    pub fn covers(&self, host: &Host) -> bool {
        let name = ServerName::try_from(host.as_str());
        let leaf = EndEntityCert::try_from(&self.minted.chain[0]);
        match (name, leaf) {
            (Ok(name), Ok(leaf)) => leaf.verify_is_valid_for_subject_name(&name).is_ok(),
            _ => false,
        }
    }

    /// The DNS names in it, wildcards as they stand there.
    pub fn names(&self) -> Vec<String> {
        let leaf = EndEntityCert::try_from(&self.minted.chain[0]);
        leaf.map_or(Vec::new(), |leaf| {
            leaf.valid_dns_names().map(str::to_owned).collect()
        })
    }

    /// The end of its validity.
    pub fn not_after(&self) -> SystemTime {
        self.minted.not_after
    }

    /// The certificate, if it is what this host is to be served.
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
