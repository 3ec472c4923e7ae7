//! The public key of a log as an argument of a command.

use base64_simd::STANDARD;

/// The reasons why a key argument is invalid.
#[derive(Debug, thiserror::Error)]
pub enum PublicKeyError {
    /// The text is neither base64 nor a readable file.
    #[error("the public key {text:?} is neither base64 nor a readable file ({problem})")]
    Unreadable {
        /// The argument as given.
        text: String,
        /// Error of the operating system.
        problem: std::io::Error,
    },
    /// The file is not PEM.
    #[error("{file}: {problem}")]
    Pem {
        /// Path of the file.
        file: String,
        /// The reason.
        problem: lucarne_x509::pem::PemError,
    },
    /// The file has no public key.
    #[error("{0}: the file has no PUBLIC KEY block")]
    NoKey(String),
}

/// Returns the SubjectPublicKeyInfo for a key argument: base64 of the DER, or a PEM file.
///
/// # Errors
/// If the argument is neither. The key itself is not checked.
pub fn given_public_key(text: &str) -> Result<Vec<u8>, PublicKeyError> {
    if let Ok(spki) = STANDARD.decode_to_vec(text.trim()) {
        return Ok(spki);
    }
    let file = std::fs::read_to_string(text).map_err(|problem| PublicKeyError::Unreadable {
        text: text.to_owned(),
        problem,
    })?;
    let blocks = lucarne_x509::pem::decode(&file).map_err(|problem| PublicKeyError::Pem {
        file: text.to_owned(),
        problem,
    })?;
    let mut keys = blocks
        .into_iter()
        .filter(|(label, _)| label == "PUBLIC KEY");
    keys.next()
        .map(|(_, spki)| spki)
        .ok_or_else(|| PublicKeyError::NoKey(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_two_forms() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key.pem");
        std::fs::write(&file, lucarne_x509::pem::encode("PUBLIC KEY", &[1, 2, 3])).unwrap();
        assert_eq!(given_public_key(file.to_str().unwrap()).unwrap(), [1, 2, 3]);
        assert_eq!(given_public_key("AQID").unwrap(), [1, 2, 3]);
        assert!(
            given_public_key("/nowhere/key.pem")
                .unwrap_err()
                .to_string()
                .contains("/nowhere")
        );
    }
}
