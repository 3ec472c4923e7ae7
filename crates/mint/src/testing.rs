//! A small public key infrastructure for tests, benchmarks and the demo, and OCSP responses as
//! responders sign them (RFC 6960, section 4.2.1).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::der::{DerError, Reader, tag};
use crate::{
    Authority, CaOptions, Chain, Der, KeyPair, KeyType, LeafOptions, MintError, Time, TimeForm,
    oid, pem,
};

/// The environment variable with the directory of a run of tests. `cargo xtask test` sets
/// it, and removes the directory after the last test.
pub const RUN: &str = "LUCARNE_TEST_RUN";

/// Returns a directory that `fill` has filled once for all tests of the run, or `None`
/// outside a run.
///
/// # Panics
/// If the directory cannot be created.
pub fn once_per_run(name: &str, fill: impl FnOnce(&Path)) -> Option<PathBuf> {
    let path = Path::new(&std::env::var_os(RUN)?).join(name);
    fill_once(&path, fill);
    Some(path)
}

/// Fills the directory `path`, unless it exists. Several processes, and several threads of one
/// process, may do this at the same time.
#[allow(clippy::expect_used)]
fn fill_once(path: &Path, fill: impl FnOnce(&Path)) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    if path.exists() {
        return;
    }
    let number = NEXT.fetch_add(1, Relaxed);
    let new = path.with_added_extension(format!("{}-{number}", std::process::id()));
    fs::create_dir(&new).expect("creating a directory for all tests");
    fill(&new);
    // Fails if another test was faster. The directory of that test is used then.
    let _ = fs::rename(&new, path);
}

/// Files of a PKI in the directory of a run.
const AUTHORITIES: [&str; 4] = ["root.pem", "rsa.pem", "p256.pem", "p384.pem"];
const LEAF_KEY: &str = "leaf-key.der";

/// A root with three intermediates like those of the WebPKI, and one key that all leaves share.
#[derive(Clone, Debug)]
pub struct Pki {
    /// RSA-2048 root.
    pub root: Authority,
    /// RSA-2048 intermediate.
    pub rsa: Authority,
    /// P-256 intermediate.
    pub p256: Authority,
    /// P-384 intermediate.
    pub p384: Authority,
    /// Key of all leaves of [`leaf`](Self::leaf) (P-256).
    pub leaf_key: Arc<KeyPair>,
}

impl Pki {
    /// Creates a new infrastructure. Takes the time of two RSA keys: see [`shared`](Self::shared).
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub fn new() -> Result<Self, MintError> {
        let root = Authority::root(&CaOptions::named(
            "Lucarne Test Root X1",
            KeyType::Rsa(2048),
        ))?;
        let below = |name, key| {
            root.intermediate(&CaOptions {
                path_length: Some(0),
                ..CaOptions::named(name, key)
            })
        };
        Ok(Pki {
            rsa: below("Lucarne Test R1", KeyType::Rsa(2048))?,
            p256: below("Lucarne Test E1", KeyType::EcdsaP256)?,
            p384: below("Lucarne Test E2", KeyType::EcdsaP384)?,
            leaf_key: Arc::new(KeyPair::generate(KeyType::EcdsaP256)?),
            root,
        })
    }

    /// Returns the PKI of this run of tests, or of this process outside a run. Generates the PKI on
    /// first use.
    ///
    /// # Panics
    /// If the cryptographic library fails, or a file of the run cannot be read.
    #[allow(clippy::expect_used)]
    pub fn shared() -> &'static Pki {
        static PKI: OnceLock<Pki> = OnceLock::new();
        let new = || Pki::new().expect("minting a test PKI");
        PKI.get_or_init(
            || match once_per_run("pki", |directory| new().write(directory)) {
                Some(directory) => Pki::read(&directory),
                None => new(),
            },
        )
    }

    #[allow(clippy::expect_used)]
    fn write(&self, directory: &Path) {
        let write = |name: &str, text: &[u8]| {
            fs::write(directory.join(name), text).expect("writing the test PKI");
        };
        let authorities = [&self.root, &self.rsa, &self.p256, &self.p384];
        for (name, authority) in AUTHORITIES.into_iter().zip(authorities) {
            write(
                name,
                authority.to_pem().expect("a generated key").as_bytes(),
            );
        }
        let key = self.leaf_key.to_pkcs8().expect("a generated key");
        write(LEAF_KEY, &key);
    }

    #[allow(clippy::expect_used)]
    fn read(directory: &Path) -> Self {
        let read = |name: &str| fs::read(directory.join(name)).expect("reading the test PKI");
        let [root, rsa, p256, p384] = AUTHORITIES.map(|name| {
            let text = String::from_utf8(read(name)).expect("PEM is ASCII");
            Authority::from_pem(&text).expect("the PEM of an authority")
        });
        let leaf_key = KeyPair::from_pkcs8(&read(LEAF_KEY)).expect("the key of the leaves");
        Pki {
            root,
            rsa,
            p256,
            p384,
            leaf_key: Arc::new(leaf_key),
        }
    }

    /// Returns options of a leaf for `name` and `www.` before `name`, with the shared key.
    pub fn leaf(&self, name: &str) -> LeafOptions {
        LeafOptions::with_key([name, &format!("www.{name}")], self.leaf_key.clone())
    }

    /// Issues a certificate for `name` from `issuer`. Returns its chain without the root. From the
    /// RSA intermediate, its JSON has about 2.7 kB, which is typical.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub fn certificate(&self, issuer: &Authority, name: &str) -> Result<Chain, MintError> {
        Ok(issuer.chain(issuer.issue(&self.leaf(name))?))
    }

    /// Issues a precertificate for `name` from `issuer`. Returns its chain without the root, as CAs
    /// submit it to add-pre-chain.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub fn precertificate(&self, issuer: &Authority, name: &str) -> Result<Chain, MintError> {
        Ok(issuer.chain(issuer.issue(&self.leaf(name).precertificate())?))
    }

    /// Returns the accepted root in PEM, for the configuration of a log.
    pub fn roots_pem(&self) -> String {
        pem::encode("CERTIFICATE", self.root.cert_der())
    }
}

/// Status of a certificate in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OcspStatus {
    /// The certificate is not revoked.
    Good,
    /// The certificate is revoked, since the creation of the response.
    Revoked,
    /// The responder does not know the certificate.
    Unknown,
}

/// An unsigned response about one certificate, with all fields accessible.
#[derive(Clone, Debug)]
pub struct OcspResponse {
    /// Status of the certificate.
    pub status: OcspStatus,
    /// Content octets of the serial number.
    pub serial: Vec<u8>,
    /// Start of the response's validity.
    pub this_update: Time,
    /// End of the response's validity; `None` omits the field.
    pub next_update: Option<Time>,
    /// SignedCertificateTimestampList (RFC 6962, section 3.3); `None` omits the extension.
    pub scts: Option<Vec<u8>>,
    /// Certificate of the responder, if it is not the issuer.
    pub responder: Option<Vec<u8>>,
}

impl OcspResponse {
    /// Creates a response about `certificate`, valid from an hour ago for a week. Returns `None` if
    /// the certificate cannot be parsed.
    pub fn about(certificate: &[u8], status: OcspStatus) -> Option<Self> {
        let now = Time::now();
        Some(OcspResponse {
            status,
            serial: serial(certificate).ok()?.to_vec(),
            this_update: Time::from_unix(now.unix() - 3600),
            next_update: Some(now.plus_days(7)),
            scts: None,
            responder: None,
        })
    }

    /// Signs the response for a certificate of `issuer` with `key`.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub fn sign(&self, issuer: &Authority, key: &KeyPair) -> Result<Vec<u8>, MintError> {
        let data = Der::build(|der| {
            der.sequence(|der| {
                der.context(2, |der| der.octet_string(&sha1(public_key(key))));
                time(der, self.this_update);
                der.sequence(|der| der.sequence(|der| self.single(issuer, der)));
            });
        });
        let algorithm = key.default_algorithm();
        let signature = key.sign(algorithm, &data)?;
        let basic = Der::build(|der| {
            der.sequence(|der| {
                der.raw(&data);
                der.raw(&algorithm.identifier());
                der.bit_string(&signature);
                if let Some(responder) = &self.responder {
                    der.context(0, |der| der.sequence(|der| der.raw(responder)));
                }
            });
        });
        Ok(successful(&basic))
    }

    fn single(&self, issuer: &Authority, der: &mut Der) {
        der.sequence(|der| {
            der.sequence(|der| {
                der.oid(&oid::SHA1);
                der.null();
            });
            der.octet_string(&sha1(issuer.name().as_der()));
            der.octet_string(&sha1(public_key(issuer.key())));
            der.integer_bytes(&self.serial);
        });
        match self.status {
            OcspStatus::Good => der.context_primitive(0, &[]),
            OcspStatus::Revoked => der.context(1, |der| time(der, self.this_update)),
            OcspStatus::Unknown => der.context_primitive(2, &[]),
        }
        time(der, self.this_update);
        if let Some(next) = self.next_update {
            der.context(0, |der| time(der, next));
        }
        if let Some(list) = &self.scts {
            der.context(1, |der| {
                der.sequence(|der| {
                    der.sequence(|der| {
                        der.oid(&oid::OCSP_SCT_LIST);
                        der.octet_string(&Der::build(|der| der.octet_string(list)));
                    });
                });
            });
        }
    }
}

const ENUMERATED: u8 = 0x0a;

fn successful(basic: &[u8]) -> Vec<u8> {
    Der::build(|der| {
        der.sequence(|der| {
            der.put(ENUMERATED, &[0]);
            der.context(0, |der| {
                der.sequence(|der| {
                    der.oid(&oid::OCSP_BASIC);
                    der.octet_string(basic);
                });
            });
        });
    })
}

fn time(der: &mut Der, time: Time) {
    time.with_form(TimeForm::Generalized).write(der);
}

fn sha1(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec()
}

/// Returns the content of a SubjectPublicKeyInfo's BIT STRING.
fn public_key(key: &KeyPair) -> &[u8] {
    let bits = subject_public_key(key.spki()).ok();
    bits.and_then(|bits| bits.get(1..)).unwrap_or_default()
}

fn subject_public_key(spki: &[u8]) -> Result<&[u8], DerError> {
    let mut fields = Reader::new(spki).any("SubjectPublicKeyInfo")?.reader();
    fields.any("algorithm")?;
    Ok(fields.any("subjectPublicKey")?.value)
}

fn serial(certificate: &[u8]) -> Result<&[u8], DerError> {
    let mut certificate = Reader::new(certificate).any("Certificate")?.reader();
    let mut tbs = certificate.any("tbsCertificate")?.reader();
    tbs.optional(tag::context(0), "version")?;
    Ok(tbs.any("serialNumber")?.value)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn two_threads_fill_a_directory_at_the_same_time() {
        let run = tempfile::tempdir().unwrap();
        let path = run.path().join("files");
        let both = Barrier::new(2);
        let fill = |directory: &Path| {
            both.wait();
            fs::write(directory.join("file"), "complete").unwrap();
        };
        thread::scope(|scope| {
            scope.spawn(|| fill_once(&path, fill));
            scope.spawn(|| fill_once(&path, fill));
        });
        assert_eq!(fs::read(path.join("file")).unwrap(), b"complete");
    }
}
