//! Keys in hardware tokens with a PKCS #11 module.

use std::fmt;
use std::path::{Path, PathBuf};

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::Mechanism;
use cryptoki::object::{Attribute, AttributeType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::Slot;
use cryptoki::types::AuthPin;
use lucarne_ct::{KeyError, KeyHolder, LogId, p256_public_key, sha256};
use parking_lot::Mutex;

/// The reasons why a token provides no key.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The module or the token failed.
    #[error("PKCS #11 module {module}: {source}")]
    Module {
        /// File of the module.
        module: PathBuf,
        /// Error of the module.
        source: Error,
    },
    /// There is no token with that label.
    #[error("PKCS #11 module {module} has no token {label:?}")]
    NoToken {
        /// File of the module.
        module: PathBuf,
        /// The configured label.
        label: String,
    },
    /// The token has no key with the label, or several.
    #[error("expected one {class} key with the label {label:?} in the token, found {found}")]
    NoKey {
        /// The configured label.
        label: String,
        /// Public or private.
        class: &'static str,
        /// Number of matching keys.
        found: usize,
    },
    /// The key has another type.
    #[error("the key {0:?} is not an ECDSA P-256 key, which a log requires")]
    NotP256(String),
}

/// A log's key in a token.
pub struct TokenKey {
    module: Pkcs11,
    slot: Slot,
    key: ObjectHandle,
    /// Keeps the login: all sessions are logged in as long as one is open.
    _session: Mutex<Session>,
    idle: Mutex<Vec<Session>>,
    spki: Vec<u8>,
    log_id: LogId,
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenKey({})", self.log_id)
    }
}

impl TokenKey {
    /// Opens the key whose public and private objects have the label `object` in the token `token`.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn open(module: &Path, token: &str, object: &str, pin: &str) -> Result<Self, TokenError> {
        let of_module = |source| TokenError::Module {
            module: module.to_owned(),
            source,
        };
        let context = Pkcs11::new(module).map_err(of_module)?;
        let arguments = CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK);
        match context.initialize(arguments) {
            // The key of another log has initialised the module already.
            Err(Error::Pkcs11(RvError::CryptokiAlreadyInitialized, _)) | Ok(()) => {}
            Err(error) => return Err(of_module(error)),
        }
        let slot = slot(&context, token).map_err(of_module)?;
        let slot = slot.ok_or_else(|| TokenError::NoToken {
            module: module.to_owned(),
            label: token.to_owned(),
        })?;
        let session = context.open_ro_session(slot).map_err(of_module)?;
        match session.login(UserType::User, Some(&AuthPin::new(pin.into()))) {
            Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) | Ok(()) => {}
            Err(error) => return Err(of_module(error)),
        }
        let find = |class, name| {
            let template = [Attribute::Class(class), Attribute::Label(object.into())];
            let found = session.find_objects(&template).map_err(of_module)?;
            match found[..] {
                [one] => Ok(one),
                _ => Err(TokenError::NoKey {
                    label: object.to_owned(),
                    class: name,
                    found: found.len(),
                }),
            }
        };
        let public = find(ObjectClass::PUBLIC_KEY, "public")?;
        let key = find(ObjectClass::PRIVATE_KEY, "private")?;
        let point = session
            .get_attributes(public, &[AttributeType::EcPoint])
            .map_err(of_module)?;
        // An OCTET STRING with the uncompressed point.
        let spki = match &point[..] {
            [Attribute::EcPoint(der)] => der.strip_prefix(&[4, 65]).and_then(p256_public_key),
            _ => None,
        };
        let spki = spki.ok_or_else(|| TokenError::NotP256(object.to_owned()))?;
        Ok(Self {
            log_id: LogId(sha256(&[&spki])),
            module: context,
            slot,
            key,
            _session: Mutex::new(session),
            idle: Mutex::default(),
            spki,
        })
    }

    fn sign_with(&self, session: &Session, digest: &[u8; 32]) -> Option<Vec<u8>> {
        let signature = session.sign(&Mechanism::Ecdsa, self.key, digest).ok()?;
        let (r, s) = signature.split_at_checked(32)?;
        (s.len() == 32).then(|| der_signature(r, s))
    }
}

fn slot(module: &Pkcs11, label: &str) -> Result<Option<Slot>, Error> {
    for slot in module.get_slots_with_token()? {
        if module.get_token_info(slot)?.label() == label {
            return Ok(Some(slot));
        }
    }
    Ok(None)
}

impl KeyHolder for TokenKey {
    fn log_id(&self) -> LogId {
        self.log_id
    }

    fn public_key_spki(&self) -> &[u8] {
        &self.spki
    }

    fn ecdsa(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let kept = self.idle.lock().pop();
        let session = match kept {
            Some(session) => session,
            None => self.module.open_ro_session(self.slot).map_err(|error| {
                tracing::error!(%error, "cannot open a session of the token");
                KeyError::Signing
            })?,
        };
        let signed = self.sign_with(&session, &sha256(&[message]));
        // A session that failed is not used again.
        let signed = signed.ok_or(KeyError::Signing)?;
        self.idle.lock().push(session);
        Ok(signed)
    }
}

/// Encodes an ECDSA-Sig-Value (RFC 3279, section 2.2.3).
fn der_signature(r: &[u8], s: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(70);
    for number in [r, s] {
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        let number = &number[zeros.min(number.len() - 1)..];
        let sign = usize::from(number[0] >= 0x80);
        body.extend_from_slice(&[2, (number.len() + sign) as u8]);
        body.extend(std::iter::repeat_n(0, sign));
        body.extend_from_slice(number);
    }
    [&[0x30, body.len() as u8], &body[..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_in_der() {
        let (mut r, mut s) = ([0; 32], [0x80; 32]);
        r[31] = 5;
        let der = der_signature(&r, &s);
        assert_eq!(der[..8], [0x30, 38, 2, 1, 5, 2, 33, 0]);
        s = [0; 32];
        assert_eq!(der_signature(&s, &s), [0x30, 6, 2, 1, 0, 2, 1, 0]);
    }
}
