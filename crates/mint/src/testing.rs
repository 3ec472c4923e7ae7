//! A small public key infrastructure for tests, benchmarks and the demo.

mod ocsp;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crate::{Authority, CaOptions, Chain, KeyPair, KeyType, LeafOptions, MintError, pem};

pub use ocsp::{OcspResponse, OcspStatus};

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
