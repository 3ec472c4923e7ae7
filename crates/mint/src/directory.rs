//! CA on disk, for programs that issue certificates.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::{Authority, CaOptions, Exposed, MintError, check_access, random};

const KEY: &str = "ca-key.pem";
const CERTIFICATE: &str = "ca.pem";

/// A directory with a CA: its certificate in `ca.pem`, for clients to trust, and its private key in
/// `ca-key.pem`, which [`check_access`] protects.
///
/// For a CA that was created here, `ca-key.pem` has the certificate as well. A CA from elsewhere
/// may have its certificate only in `ca.pem`, followed by the certificates above it if the CA is an
/// intermediate CA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaDirectory {
    path: PathBuf,
}

/// Reasons why a CA cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaDirectoryError {
    /// A file operation failed.
    #[error("{}: {error}", path.display())]
    Io {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// A file has no valid CA.
    #[error("{}: {error}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error in the file.
        error: MintError,
    },
    /// Either the key or the certificate is missing.
    #[error("{} is missing, but {} exists: restore {}, or move {} to another directory to create \
             a new CA", missing.display(), present.display(), missing.display(), present.display())]
    Incomplete {
        /// Path of the missing file.
        missing: PathBuf,
        /// Path of the other file.
        present: PathBuf,
    },
    /// Other users can access the private key.
    #[error("the CA's private key {} {exposed}", path.display())]
    Exposed {
        /// The file of the key.
        path: PathBuf,
        /// The users with access, and the remedy.
        exposed: Exposed,
    },
    /// Creating the CA failed.
    #[error("creating a CA")]
    Make(#[from] MintError),
}

impl CaDirectory {
    /// Refers to the directory at `path`, which need not exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        CaDirectory { path: path.into() }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the certificate that clients must trust (PEM).
    pub fn certificate_file(&self) -> PathBuf {
        self.path.join(CERTIFICATE)
    }

    /// Returns the path of the private key, with the certificate and the certificates above it
    /// (PEM). **Secret.**
    pub fn key_file(&self) -> PathBuf {
        self.path.join(KEY)
    }

    /// Reads the CA from its files.
    ///
    /// # Errors
    /// If there is no CA, it cannot be read, or other users could read its key.
    pub fn open(&self) -> Result<Authority, CaDirectoryError> {
        let path = self.key_file();
        let failed = |error| CaDirectoryError::Io {
            path: path.clone(),
            error,
        };
        let text = read(&path).map_err(failed)?;
        if let Err(exposed) = check_access(&path) {
            return Err(CaDirectoryError::Exposed { path, exposed });
        }
        if text.contains("-----BEGIN CERTIFICATE-----") {
            return Authority::from_pem(&text)
                .map_err(|error| CaDirectoryError::File { path, error });
        }
        let beside = self.certificate_file();
        match read(&beside) {
            Ok(certificates) => {
                let opened = Authority::from_pem(&format!("{text}\n{certificates}"));
                opened.map_err(|error| CaDirectoryError::File {
                    path: if is_about_key(&error) { path } else { beside },
                    error,
                })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(CaDirectoryError::Incomplete {
                    missing: beside,
                    present: path,
                })
            }
            Err(error) => Err(CaDirectoryError::Io {
                path: beside,
                error,
            }),
        }
    }

    /// Opens the CA, or creates it if there is none. The second value is `true` if this call
    /// created the CA. If several processes try at the same time, one process creates the CA, and
    /// all open this CA.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open), or an error if the CA cannot be written.
    pub fn open_or_create(
        &self,
        options: &CaOptions,
    ) -> Result<(Authority, bool), CaDirectoryError> {
        let missing = |error: &CaDirectoryError| match error {
            CaDirectoryError::Io { path, error } => {
                error.kind() == io::ErrorKind::NotFound && *path == self.key_file()
            }
            _ => false,
        };
        let mut opened = self.open();
        if opened.as_ref().is_err_and(missing) && self.certificate_file().exists() {
            // Another process may have created the CA in the meantime: it writes the key first.
            opened = self.open();
            if opened.as_ref().is_err_and(missing) {
                return Err(CaDirectoryError::Incomplete {
                    missing: self.key_file(),
                    present: self.certificate_file(),
                });
            }
        }
        let made = match opened {
            Err(error) if missing(&error) => self.create(options)?,
            Err(error) => return Err(error),
            Ok(_) => false,
        };
        let authority = self.open()?;
        if !self.certificate_file().exists() {
            self.put(CERTIFICATE, 0o644, &authority.trusted_pem())?;
        }
        Ok((authority, made))
    }

    /// Creates a CA. Returns `false` if another process was faster.
    fn create(&self, options: &CaOptions) -> Result<bool, CaDirectoryError> {
        DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(&self.path)
            .map_err(|error| CaDirectoryError::Io {
                path: self.path.clone(),
                error,
            })?;
        let authority = Authority::root(options)?;
        self.put(KEY, 0o600, &authority.to_pem()?)
    }

    /// Writes a complete file at its path. Returns `false` if a file with this name exists.
    fn put(&self, name: &str, mode: u32, text: &str) -> Result<bool, CaDirectoryError> {
        let mut number = [0; 8];
        random(&mut number)?;
        let number = u64::from_be_bytes(number);
        let unfinished = self.path.join(format!("{name}.{number:016x}"));
        let place = self.path.join(name);
        let put = write(&unfinished, mode, text)
            // Unlike a rename, this never replaces another file.
            .and_then(|()| fs::hard_link(&unfinished, &place));
        let _ = fs::remove_file(&unfinished); // the file may not exist
        match put {
            Ok(()) => Ok(true),
            Err(error) if place.exists() && error.kind() == io::ErrorKind::AlreadyExists => {
                Ok(false)
            }
            Err(error) => Err(CaDirectoryError::Io { path: place, error }),
        }
    }

    /// Returns instructions for users to trust this CA: several lines of text.
    pub fn trust_hints(&self) -> String {
        trust_hints(&self.certificate_file(), &self.key_file())
    }
}

/// Returns whether the error concerns the private key, and not the certificates.
fn is_about_key(error: &MintError) -> bool {
    matches!(
        error,
        MintError::Encrypted
            | MintError::OldKeyFormat { .. }
            | MintError::KeyCount { found: 0 }
            | MintError::PrivateKey(_)
    )
}

/// Reads a text file. Refuses a FIFO or a device, which could block the caller.
fn read(path: &Path) -> io::Result<String> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_file() || kind.is_dir() {
        return fs::read_to_string(path);
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "expected a regular file, found a FIFO, a socket or a device",
    ))
}

fn write(path: &Path, mode: u32, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn trust_hints(certificate: &Path, key: &Path) -> String {
    let certificate = certificate
        .canonicalize()
        .unwrap_or_else(|_| certificate.to_owned());
    let (file, key) = (certificate.display(), key.display());
    format!(
        "Clients must trust this CA, or they refuse its certificates:\n  \
           curl             curl --cacert {file} …\n  \
           Python requests  export REQUESTS_CA_BUNDLE={file}\n  \
           Node.js          export NODE_EXTRA_CA_CERTS={file}\n  \
           Go, OpenSSL      export SSL_CERT_FILE={file}   (then nothing else is trusted)\n  \
           Java             keytool -importcert -cacerts -alias lucarne -file {file}\n  \
           Chromium, Linux  certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n lucarne -i {file}\n  \
           Firefox          Settings, Privacy & Security, View Certificates, Authorities, Import\n  \
           Debian, Ubuntu   cp {file} /usr/local/share/ca-certificates/lucarne.crt && update-ca-certificates\n  \
           Fedora, RHEL     trust anchor {file}\n  \
           macOS            security add-trusted-cert -d -r trustRoot -k /Library/Keychains/System.keychain {file}\n  \
           Windows          certutil -addstore -f ROOT {file}\n\
         Anyone with {key} can impersonate any site to clients that trust it. Keep it\n\
         secret, and remove the trust after use.\n"
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::KeyType;

    fn options() -> CaOptions {
        CaOptions::local(KeyType::EcdsaP256).unwrap()
    }

    #[test]
    fn a_ca_is_made_once_and_its_key_is_private() {
        let home = tempfile::tempdir().unwrap();
        let directory = CaDirectory::at(home.path().join("new/ca"));
        assert!(directory.open().is_err());
        let (ca, made) = directory.open_or_create(&options()).unwrap();
        assert!(made);
        let (again, made) = directory.open_or_create(&options()).unwrap();
        assert!(!made);
        assert_eq!(ca.cert_der(), again.cert_der());
        let mode = |file: &Path| fs::metadata(file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory.key_file()), 0o600);
        assert_eq!(mode(directory.path()), 0o700);
        let certificate = fs::read_to_string(directory.certificate_file()).unwrap();
        assert_eq!(certificate, ca.certificate_pem());
        let files = fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(files, 2, "nothing unfinished is left");
        assert!(directory.trust_hints().contains("ca.pem"));
    }

    /// Writes an intermediate CA with its root in the layout of `openssl`: the key, and the
    /// certificates in a separate file.
    fn of_others(certificates: impl Fn(&Authority) -> String) -> (tempfile::TempDir, Authority) {
        let root = Authority::root(&options()).unwrap();
        let ca = root.intermediate(&CaOptions::named("Below", KeyType::EcdsaP256));
        let ca = ca.unwrap();
        let home = tempfile::tempdir().unwrap();
        let key = crate::pem::encode("PRIVATE KEY", &ca.key().to_pkcs8().unwrap());
        write(&home.path().join(KEY), 0o600, &key).unwrap();
        write(&home.path().join(CERTIFICATE), 0o644, &certificates(&ca)).unwrap();
        (home, ca)
    }

    #[test]
    fn the_certificate_of_a_ca_from_elsewhere_is_in_a_file_of_its_own() {
        let pem = |der: &Vec<u8>| crate::pem::encode("CERTIFICATE", der);
        let all = |ca: &Authority| ca.certificates().iter().map(pem).collect::<String>();
        let root_first = |ca: &Authority| ca.certificates().iter().rev().map(pem).collect();
        let alone = |ca: &Authority| ca.certificate_pem();
        for (known, certificates) in [
            (2, &all as &dyn Fn(&Authority) -> String),
            (2, &root_first),
            (1, &alone),
        ] {
            let (home, ca) = of_others(certificates);
            let (opened, made) = CaDirectory::at(home.path())
                .open_or_create(&options())
                .unwrap();
            assert!(!made);
            assert_eq!(opened.certificates(), &ca.certificates()[..known]);
            // The intermediate CA is sent, the root is not.
            let chain = opened.chain(b"leaf".to_vec()).into_certificates();
            assert_eq!(chain, [b"leaf".to_vec(), ca.cert_der().to_vec()]);
            let trusted = pem(&ca.certificates()[known - 1]);
            assert_eq!(opened.trusted_pem(), trusted);
        }
    }

    #[test]
    fn a_ca_from_elsewhere_that_cannot_be_used_is_refused_in_words() {
        for (key, expected) in [
            ("ENCRYPTED PRIVATE KEY", "encrypted with a passphrase"),
            ("EC PRIVATE KEY", "PKCS#8"),
            ("RSA PRIVATE KEY", "PKCS#8"),
        ] {
            let (home, _) = of_others(Authority::certificate_pem);
            let path = home.path().join(KEY);
            fs::write(&path, crate::pem::encode(key, b"secret")).unwrap();
            let refused = CaDirectory::at(home.path()).open().unwrap_err();
            assert!(refused.to_string().contains(expected), "{refused}");
            assert!(refused.to_string().contains(KEY), "{refused}");
            // The text has the reason once, also with the sources of the error.
            assert!(std::error::Error::source(&refused).is_none(), "{refused}");
        }
        let (home, _) = of_others(|_| Authority::root(&options()).unwrap().certificate_pem());
        let refused = CaDirectory::at(home.path()).open().unwrap_err();
        assert!(refused.to_string().contains("does not belong"), "{refused}");
        // A key is not replaced, and a certificate gets no new key.
        for (missing, expected) in [
            (CERTIFICATE, "ca.pem is missing, but "),
            (KEY, "ca-key.pem is missing, but "),
        ] {
            let (home, _) = of_others(Authority::certificate_pem);
            let missing = home.path().join(missing);
            fs::remove_file(&missing).unwrap();
            let directory = CaDirectory::at(home.path());
            let refused = directory.open_or_create(&options()).unwrap_err();
            assert!(refused.to_string().contains(expected), "{refused}");
            assert!(!missing.exists());
        }
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let directory = CaDirectory::at(home.path());
        directory.open_or_create(&options()).unwrap();
        let set = |mode| {
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(directory.key_file(), mode).unwrap();
        };
        // A Secret of Kubernetes with `fsGroup`.
        set(0o440);
        directory.open().unwrap();
        set(0o444);
        let refused = directory.open_or_create(&options()).unwrap_err();
        assert!(refused.to_string().contains("chmod 600"), "{refused}");
    }

    #[test]
    fn a_fifo_in_place_of_a_file_does_not_block() {
        for name in [KEY, CERTIFICATE] {
            let (home, _) = of_others(Authority::certificate_pem);
            let path = home.path().join(name);
            fs::remove_file(&path).unwrap();
            let made = std::process::Command::new("mkfifo").arg(&path).status();
            assert!(made.unwrap().success());
            let refused = CaDirectory::at(home.path()).open().unwrap_err();
            let told = format!("{}: expected a regular file", path.display());
            assert!(refused.to_string().starts_with(&told), "{refused}");
        }
    }

    #[test]
    fn one_of_many_makes_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("ca");
        let racers: Vec<_> = (0..8)
            .map(|_| {
                let directory = CaDirectory::at(&path);
                std::thread::spawn(move || directory.create(&options()))
            })
            .collect();
        let made = racers
            .into_iter()
            .map(|racer| racer.join().unwrap())
            .filter(|made| matches!(made, Ok(true)));
        assert_eq!(made.count(), 1);
        assert!(CaDirectory::at(&path).open().is_ok());
    }
}
