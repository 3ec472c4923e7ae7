//! Signed requests: flattened JWS (RFC 7515, section 7.2.2) with ES256 (RFC 7518, section 3.4), as
//! RFC 8555, section 6.2, requires.

use aws_lc_rs::digest;
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64_simd::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// Key of an account.
pub(super) struct AccountKey {
    pair: EcdsaKeyPair,
    /// Coordinates of the public key, in base64url.
    x: String,
    y: String,
}

/// Signer of a request: a new key, or a known account.
#[derive(Clone, Copy, Debug)]
pub(super) enum Signer<'a> {
    /// A new account, with its key as `jwk`.
    New,
    /// The account with this URL, as `kid`.
    Account(&'a str),
}

/// Errors of account keys.
#[derive(Debug, thiserror::Error)]
pub(super) enum JwsError {
    #[error("generating the key of an account failed")]
    Generate(#[source] Unspecified),
    #[error("the key of the account is not on P-256")]
    Curve,
    #[error("signing the request failed")]
    Sign(#[source] Unspecified),
}

impl AccountKey {
    /// Generates a new key.
    pub(super) fn generate() -> Result<Self, JwsError> {
        let pair =
            EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(JwsError::Generate)?;
        // Uncompressed point: 4, x, y.
        let (x, y) = match pair.public_key().as_ref() {
            [4, point @ ..] if point.len() == 64 => (encode(&point[..32]), encode(&point[32..])),
            _ => return Err(JwsError::Curve),
        };
        Ok(Self { pair, x, y })
    }

    fn jwk(&self) -> Value {
        json!({ "kty": "EC", "crv": "P-256", "x": self.x, "y": self.y })
    }

    /// Returns the key authorisation of a token (RFC 8555, section 8.1), which contains the key's
    /// thumbprint (RFC 7638).
    pub(super) fn authorize(&self, token: &str) -> String {
        // Members in lexicographic order, without white space.
        let (x, y) = (&self.x, &self.y);
        let jwk = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        let thumbprint = digest::digest(&digest::SHA256, jwk.as_bytes());
        format!("{token}.{}", encode(thumbprint.as_ref()))
    }

    /// Signs the body of a POST to `url`. The payload is JSON, or empty for POST-as-GET (RFC 8555,
    /// section 6.3).
    pub(super) fn sign(
        &self,
        signer: Signer<'_>,
        url: &str,
        nonce: &str,
        payload: &str,
    ) -> Result<String, JwsError> {
        let mut header = json!({ "alg": "ES256", "nonce": nonce, "url": url });
        match signer {
            Signer::New => header["jwk"] = self.jwk(),
            Signer::Account(kid) => header["kid"] = kid.into(),
        }
        let (header, payload) = (
            encode(header.to_string().as_bytes()),
            encode(payload.as_bytes()),
        );
        let signed = format!("{header}.{payload}");
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = encode(signature.map_err(JwsError::Sign)?.as_ref());
        Ok(format!(
            r#"{{"protected":"{header}","payload":"{payload}","signature":"{signature}"}}"#
        ))
    }
}

/// Encodes bytes in base64url without padding (RFC 7515, section 2).
pub(super) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode_to_string(bytes)
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    fn decode(value: &Value) -> Vec<u8> {
        URL_SAFE_NO_PAD
            .decode_to_vec(value.as_str().unwrap())
            .unwrap()
    }

    #[test]
    fn requests_are_signed_by_the_key_they_name() {
        let key = AccountKey::generate().unwrap();
        let body = key.sign(Signer::New, "https://a/new", "n1", "{}").unwrap();
        let body: Value = serde_json::from_str(&body).unwrap();
        let header: Value = serde_json::from_slice(&decode(&body["protected"])).unwrap();
        assert_eq!(
            (&header["alg"], &header["nonce"], &header["url"]),
            (&"ES256".into(), &"n1".into(), &"https://a/new".into())
        );
        assert!(header.get("kid").is_none());
        let point = [
            &[4],
            &decode(&header["jwk"]["x"])[..],
            &decode(&header["jwk"]["y"]),
        ]
        .concat();
        let text = |name: &str| body[name].as_str().unwrap();
        let signed = format!("{}.{}", text("protected"), text("payload"));
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
            .verify(signed.as_bytes(), &decode(&body["signature"]))
            .unwrap();

        let body = key
            .sign(Signer::Account("https://a/1"), "u", "n", "")
            .unwrap();
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["payload"], "");
        let header: Value = serde_json::from_slice(&decode(&body["protected"])).unwrap();
        assert!(header["kid"] == "https://a/1" && header.get("jwk").is_none());
    }

    #[test]
    fn an_authorization_is_the_token_and_the_thumbprint() {
        let key = AccountKey::generate().unwrap();
        let authorized = key.authorize("tok");
        let thumbprint = authorized.strip_prefix("tok.").unwrap();
        assert_eq!(decode(&thumbprint.into()).len(), 32);
        assert_ne!(authorized, AccountKey::generate().unwrap().authorize("tok"));
    }
}
