//! The key that a leader and its agents share.

use std::path::Path;

use aws_lc_rs::hmac::{HMAC_SHA256, Key as Hmac, sign, verify};

use crate::config::{Secret, SecretError, SourceError};

/// Smallest number of characters of a key.
const LEAST: usize = 32;

/// The key that a leader and its agents share.
///
/// Each side of a TLS connection proves that it has the key with the HMAC-SHA-256 of its role and
/// of 32 bytes that TLS exports for this connection (RFC 8446, section 7.5). A process between both
/// sides has two connections with different exported bytes, so that it cannot pass on a proof. TLS
/// encrypts and authenticates all frames.
#[derive(Clone)]
pub(super) struct Key(Hmac);

/// The side of a connection that a proof is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Leader,
    Agent,
}

/// Bytes that TLS exports for a connection.
pub(super) type Exported = [u8; 32];

/// Reasons why a key cannot be used. The message names the flag.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyError {
    #[error("--key: `{text}` {source}")]
    Source { text: String, source: SourceError },
    #[error("--key: {place} {source}")]
    Secret { place: String, source: SecretError },
    #[error(
        "--key: {place} has {found} characters, expected at least {LEAST}: create a key with \
         `openssl rand -hex 32`"
    )]
    Short { place: String, found: usize },
}

impl Key {
    /// Reads the key from its source: a file, `env:NAME`, `credential:NAME` or `exec:COMMAND`.
    pub(super) fn read(text: &str) -> Result<Self, KeyError> {
        let source = Secret::parse_password(text, Path::new(""));
        let source = source.map_err(|source| KeyError::Source {
            text: text.to_owned(),
            source,
        })?;
        let place = source.to_string();
        match source.text() {
            Err(source) => Err(KeyError::Secret { place, source }),
            Ok(key) => match key.chars().count() {
                LEAST.. => Ok(Self::new(&key)),
                found => Err(KeyError::Short { place, found }),
            },
        }
    }

    pub(super) fn new(key: &str) -> Self {
        Key(Hmac::new(HMAC_SHA256, key.as_bytes()))
    }

    /// Returns the proof that this side of the connection has the key.
    pub(super) fn proof(&self, role: Role, exported: &Exported) -> String {
        hex::encode(sign(&self.0, &role.message(exported)))
    }

    /// Returns whether the other side has proven that it has the key.
    pub(super) fn accepts(&self, role: Role, exported: &Exported, proof: &str) -> bool {
        hex::decode(proof)
            .is_ok_and(|proof| verify(&self.0, &role.message(exported), &proof).is_ok())
    }
}

impl Role {
    fn message(self, exported: &Exported) -> Vec<u8> {
        let name: &[u8] = match self {
            Role::Leader => b"lucarne load lead\0",
            Role::Agent => b"lucarne load agent\0",
        };
        [name, exported].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_for_one_role_one_connection_and_one_key() {
        let (key, exported) = (Key::new("one"), [7; 32]);
        let proof = key.proof(Role::Agent, &exported);
        assert!(key.accepts(Role::Agent, &exported, &proof));
        assert!(!key.accepts(Role::Leader, &exported, &proof), "reflected");
        assert!(!key.accepts(Role::Agent, &[8; 32], &proof), "passed on");
        assert!(!Key::new("two").accepts(Role::Agent, &exported, &proof));
        for wrong in ["", "00", "not hexadecimal"] {
            assert!(!key.accepts(Role::Agent, &exported, wrong), "{wrong}");
        }
    }

    #[test]
    fn short_keys_are_refused() {
        let here = tempfile::tempdir().unwrap();
        let file = here.path().join("agents.key");
        let read = |key: &str| {
            let mut options = std::fs::OpenOptions::new();
            let options = options.write(true).create(true).truncate(true);
            let mut open = std::os::unix::fs::OpenOptionsExt::mode(options, 0o600)
                .open(&file)
                .unwrap();
            std::io::Write::write_all(&mut open, key.as_bytes()).unwrap();
            Key::read(file.to_str().unwrap())
        };
        assert!(read(&"k".repeat(32)).is_ok());
        let said = read(&"k".repeat(31)).err().unwrap().to_string();
        let expected = format!(
            "--key: {} has 31 characters, expected at least 32: create a key with `openssl rand \
             -hex 32`",
            file.display()
        );
        assert_eq!(said, expected);
        let said = Key::read("env:LUCARNE_NO_SUCH_KEY").err().unwrap();
        assert_eq!(
            said.to_string(),
            "--key: environment variable LUCARNE_NO_SUCH_KEY is not set"
        );
    }
}
