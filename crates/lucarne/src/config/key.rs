//! Key of a log: Sunlight's seed, or PEM.

use std::io;
use std::path::Path;

use base64_simd::STANDARD;
use lucarne_ct::LogKey;
use lucarne_mint::{Exposed, check_access};

use crate::files;

/// Reasons why a key is refused. The text follows the place of the key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    #[error("does not exist; create a key with `lucarne keygen -f <file>`")]
    Absent(#[source] io::Error),
    #[error("cannot be read: {0}")]
    Read(#[source] io::Error),
    #[error(transparent)]
    Exposed(#[from] Exposed),
    #[error("is not a valid seed: {0}")]
    Seed(#[source] lucarne_ct::KeyError),
    #[error("is not a log key: {0}")]
    Pem(#[source] lucarne_ct::KeyError),
    #[error("is UTF-16 text: convert it to UTF-8 with `iconv -f UTF-16 -t UTF-8`")]
    Utf16,
    /// Unsupported format; the value is the length in bytes.
    #[error(
        "is not a key: expected a seed of 32 bytes, its base64, or an EC P-256 key in PEM; found \
         {0} bytes"
    )]
    Form(usize),
    /// Unsupported format of a seed; the value is the length in bytes.
    #[error("is not a seed: expected 32 bytes, or their base64; found {0} bytes")]
    SeedForm(usize),
}

/// Reads a log key: a seed file of 32 bytes, or a PEM file with an EC P-256 key.
pub(crate) fn read(path: &Path) -> Result<LogKey, KeyError> {
    from_bytes(&bytes_of(path)?)
}

/// Reads a key file. A missing file is [`KeyError::Absent`], whose text has the remedy.
pub(super) fn bytes_of(path: &Path) -> Result<Vec<u8>, KeyError> {
    check_access(path)?;
    files::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => KeyError::Absent(error),
        _ => KeyError::Read(error),
    })
}

/// Parses a key: a seed of 32 bytes, the base64 of a seed, or PEM.
pub(super) fn from_bytes(bytes: &[u8]) -> Result<LogKey, KeyError> {
    if let Some(seed) = seed_of(bytes) {
        return LogKey::from_seed(&seed).map_err(KeyError::Seed);
    }
    if lucarne_mint::pem::is_utf_16(bytes) {
        return Err(KeyError::Utf16);
    }
    let text = std::str::from_utf8(bytes)
        .map(str::trim)
        .unwrap_or_default();
    if text.contains("-----BEGIN") {
        return LogKey::from_pem(text).map_err(KeyError::Pem);
    }
    Err(KeyError::Form(bytes.len()))
}

/// Parses the seed of a witness.
pub(super) fn seed_from_bytes(bytes: &[u8]) -> Result<[u8; 32], KeyError> {
    seed_of(bytes).ok_or(KeyError::SeedForm(bytes.len()))
}

/// Reads the seed of a witness from its file.
pub(crate) fn read_seed(path: &Path) -> Result<[u8; 32], KeyError> {
    seed_from_bytes(&bytes_of(path)?)
}

/// Returns a seed of 32 bytes, or of their base64.
fn seed_of(bytes: &[u8]) -> Option<[u8; 32]> {
    let of_text = || {
        STANDARD
            .decode_to_vec(bytes.trim_ascii())
            .ok()?
            .try_into()
            .ok()
    };
    bytes.try_into().ok().or_else(of_text)
}

/// Formats the log ID, and the public key in base64 DER and in PEM.
pub(crate) fn describe(key: &LogKey) -> String {
    let encode = |bytes: &[u8]| STANDARD.encode_to_string(bytes);
    let spki = key.public_key_spki();
    format!(
        "Log ID:     {}\nPublic key: {}\n\n{}",
        encode(&key.log_id().0),
        encode(spki),
        lucarne_mint::pem::encode("PUBLIC KEY", spki)
    )
}
