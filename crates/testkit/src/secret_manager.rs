use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, Result};
use aws_lc_rs::{
    encoding::{AsDer, Pkcs8V1Der},
    rsa::{KeyPair, KeySize},
    signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey},
};
use base64_simd::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Request, Response, header};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::service::Service;

/// A double of GCP Secret Manager (`versions.access` of its REST API, v1), and of the metadata
/// server that issues tokens to instances, by Google's documentation.
///
/// The double accepts tokens of this metadata server, and tokens that [its service
/// account](Self::service_account) has signed.
#[derive(Debug)]
pub struct SecretManager {
    /// URL of the double: `http://127.0.0.1:port`.
    pub endpoint: String,
    /// The same address for `GCE_METADATA_HOST`: `127.0.0.1:port`.
    pub host: String,
    versions: Arc<Mutex<BTreeMap<String, Version>>>,
    service_account: String,
    _service: Service,
}

#[derive(Debug)]
enum Version {
    Payload(Value),
    Denied,
}

const EMAIL: &str = "lucarne@test.iam.gserviceaccount.com";
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const TOKEN: &str = "token-of-the-instance";

impl SecretManager {
    /// Starts the server without secrets.
    ///
    /// # Errors
    /// If no port is free, or the key cannot be generated.
    pub fn start() -> Result<Self> {
        let key = KeyPair::generate(KeySize::Rsa2048).context("generating a key")?;
        let public = key.public_key().as_ref().to_vec();
        let versions = Arc::<Mutex<BTreeMap<_, _>>>::default();
        let double = Double {
            versions: versions.clone(),
            account: Arc::new(UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public)),
        };
        let service = Service::start(move |request| {
            let double = double.clone();
            async move { double.answer(&request) }
        })?;
        let private = AsDer::<Pkcs8V1Der<'_>>::as_der(&key).context("encoding the key")?;
        let account = json!({
            "type": "service_account",
            "client_email": EMAIL,
            "private_key_id": "1",
            "private_key": lucarne_mint::pem::encode("PRIVATE KEY", private.as_ref()),
        });
        Ok(Self {
            endpoint: format!("http://{}", service.address),
            host: service.address.to_string(),
            versions,
            service_account: account.to_string(),
            _service: service,
        })
    }

    /// Returns the credentials file of the service account, in Google's format.
    pub fn service_account(&self) -> &str {
        &self.service_account
    }

    /// Adds a version of a secret (`projects/…/versions/…`) with this payload: its `data` and
    /// optionally its `dataCrc32c`.
    pub fn add(&self, version: &str, payload: Value) {
        self.set(version, Version::Payload(payload));
    }

    /// Adds a version without access.
    pub fn deny(&self, version: &str) {
        self.set(version, Version::Denied);
    }

    fn set(&self, name: &str, version: Version) {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.insert(name.to_owned(), version);
    }
}

#[derive(Clone)]
struct Double {
    versions: Arc<Mutex<BTreeMap<String, Version>>>,
    account: Arc<UnparsedPublicKey<Vec<u8>>>,
}

impl Double {
    fn answer(&self, request: &Request<Bytes>) -> Option<Response<Bytes>> {
        let path = request.uri().path();
        if path == "/computeMetadata/v1/instance/service-accounts/default/token" {
            return match text(request, "metadata-flavor") {
                "Google" => json_answer(
                    200,
                    &json!({ "access_token": TOKEN, "expires_in": 3599, "token_type": "Bearer" }),
                ),
                _ => json_answer(403, &Value::Null),
            };
        }
        let version = path.strip_prefix("/v1/")?.strip_suffix(":access")?;
        let token = text(request, header::AUTHORIZATION.as_str()).strip_prefix("Bearer ");
        if !token.is_some_and(|token| token == TOKEN || self.signed(token).is_some()) {
            let message = "Request had invalid authentication credentials.";
            return error(401, "UNAUTHENTICATED", message);
        }
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        match versions.get(version) {
            Some(Version::Payload(payload)) => {
                json_answer(200, &json!({ "name": version, "payload": payload }))
            }
            Some(Version::Denied) => {
                let permission = "Permission 'secretmanager.versions.access' denied";
                let message =
                    format!("{permission} for resource '{version}' (or it may not exist).");
                error(403, "PERMISSION_DENIED", &message)
            }
            None => {
                let secret = version.split("/versions").next().unwrap_or_default();
                let message = format!("Secret [{secret}] not found or has no versions.");
                error(404, "NOT_FOUND", &message)
            }
        }
    }

    /// Returns `Some` for a JSON web token that the service account has signed for the right scope,
    /// and that has not expired.
    fn signed(&self, token: &str) -> Option<()> {
        let (message, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode_to_vec(signature).ok()?;
        self.account.verify(message.as_bytes(), &signature).ok()?;
        let claims = URL_SAFE_NO_PAD
            .decode_to_vec(message.split_once('.')?.1)
            .ok()?;
        let claims: Value = serde_json::from_slice(&claims).ok()?;
        let ours = claims["iss"] == EMAIL && claims["scope"] == SCOPE;
        (ours && claims["exp"].as_i64()? > Timestamp::now().as_second()).then_some(())
    }
}

fn text<'r>(request: &'r Request<Bytes>, name: &str) -> &'r str {
    let value = request.headers().get(name);
    value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

fn error(code: u16, status: &str, message: &str) -> Option<Response<Bytes>> {
    json_answer(
        code,
        &json!({ "error": { "code": code, "message": message, "status": status } }),
    )
}

fn json_answer(status: u16, body: &Value) -> Option<Response<Bytes>> {
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json; charset=UTF-8")
        .body(body.to_string().into())
        .ok()
}
