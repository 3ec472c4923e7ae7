//! A store: its connections, and the signatures of its requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Method;
use lucarne_load::http::{
    Body, Client, ClientOptions, Endpoint, Headers, Keep, Request, Response, kind,
};
use lucarne_load::{Failure, PrepareError};
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use url::{Position, Url};

use super::content::Comparison;
use super::keys::{self, Keys};
use super::options::{AddressingStyle, S3Options};
use crate::connection_options::wrong;

/// Validity of a signature: longer than any request takes.
const VALID: Duration = Duration::from_secs(3600);

/// A store under load.
#[derive(Debug)]
pub(super) struct Store {
    /// Name in reports.
    pub(super) name: String,
    pub(super) bucket: Bucket,
    /// Set when the store is resolved, at the latest.
    keys: OnceLock<Keys>,
    profile: Option<String>,
    options: Arc<ClientOptions>,
    endpoint: OnceLock<Arc<Endpoint>>,
    /// Requests so far that write an object.
    writes: AtomicU64,
}

/// A request to a store.
#[derive(Clone, Copy, Debug)]
pub(super) enum S3Request<'a> {
    Put(&'a str),
    /// Conditional PUT, which fails if the object exists.
    Create(&'a str),
    Get(&'a str),
    Head(&'a str),
    /// HEAD of a deleted object.
    Gone(&'a str),
    Delete(&'a str),
    /// List of the objects with this prefix.
    List(&'a str),
    HeadBucket,
    CreateBucket,
    DeleteBucket,
}

const CONDITION: (&str, &str) = ("if-none-match", "*");

impl S3Request<'_> {
    fn method(self) -> &'static Method {
        match self {
            S3Request::Put(_) | S3Request::Create(_) | S3Request::CreateBucket => &Method::PUT,
            S3Request::Get(_) | S3Request::List(_) => &Method::GET,
            S3Request::Head(_) | S3Request::Gone(_) | S3Request::HeadBucket => &Method::HEAD,
            S3Request::Delete(_) | S3Request::DeleteBucket => &Method::DELETE,
        }
    }

    /// Returns the expected statuses.
    fn expected(self) -> &'static [u16] {
        match self {
            // 409: another creator is active (ConditionalRequestConflict).
            S3Request::Create(_) => &[200, 412, 409],
            S3Request::Delete(_) | S3Request::DeleteBucket => &[200, 204],
            // 403: without permission to list the bucket, a store does not reveal that an object is
            // missing.
            S3Request::Gone(_) => &[200, 403, 404],
            _ => &[200],
        }
    }
}

impl Store {
    /// Creates the stores that `options` name.
    pub(super) fn all(options: &S3Options) -> Result<Vec<Self>, PrepareError> {
        let count = options.endpoint.len();
        if count == 0 {
            return Err(wrong("`--endpoint` (`endpoint` in a plan) is missing"));
        }
        let client = Arc::new(options.connection.client());
        let keys = keys::given(options, &|name| std::env::var(name).ok())?;
        let mut stores = Vec::new();
        for (number, text) in options.endpoint.iter().enumerate() {
            let store = Self::new(text, options, client.clone())?;
            if let Some(keys) = keys.get(number) {
                let _ = store.keys.set(Keys::Given(Arc::new(keys.clone())));
            }
            stores.push(store);
        }
        for (index, store) in stores.iter().enumerate() {
            if stores[..index].iter().any(|other| other.name == store.name) {
                return Err(wrong(format!(
                    "two stores have the name `{}`: write NAME=URL",
                    store.name
                )));
            }
        }
        Ok(stores)
    }

    fn new(
        text: &str,
        options: &S3Options,
        client: Arc<ClientOptions>,
    ) -> Result<Self, PrepareError> {
        let (name, url) = match text.split_once('=') {
            Some((name, url)) if !name.contains(['/', ':']) => (Some(name), url),
            _ => (None, text),
        };
        let parsed =
            Url::parse(url).map_err(|error| wrong(format!("`{url}` is not a URL: {error}")))?;
        let style = match options.style {
            AddressingStyle::Path => UrlStyle::Path,
            AddressingStyle::Virtual => UrlStyle::VirtualHost,
        };
        let host = &parsed[Position::BeforeHost..Position::AfterPort];
        let name = name.unwrap_or(host).to_owned();
        let (bucket, region) = (options.bucket.clone(), options.region.clone());
        let bucket = Bucket::new(parsed, style, bucket, region).map_err(|error| {
            wrong(format!(
                "the bucket `{}` at `{url}` has no URL: {error}",
                options.bucket
            ))
        })?;
        Ok(Self {
            name,
            bucket,
            keys: OnceLock::new(),
            profile: options.profile.clone().filter(|name| !name.is_empty()),
            options: client,
            endpoint: OnceLock::new(),
            writes: AtomicU64::new(0),
        })
    }

    /// Resolves the address, and looks up the keys if they are not configured.
    pub(super) async fn resolve(&self) -> Result<(), PrepareError> {
        if self.keys.get().is_none() {
            let _ = self.keys.set(keys::find(self.profile.as_deref()).await?);
        }
        let origin = &self.bucket.base_url()[..Position::BeforePath];
        let endpoint = Endpoint::resolve(origin, &self.options).await?;
        let _ = self.endpoint.set(endpoint);
        Ok(())
    }

    /// Returns a new client; `None` before [`resolve`](Self::resolve).
    pub(super) fn client(&self) -> Option<Client> {
        let endpoint = self.endpoint.get()?.clone();
        Some(Client::new(endpoint, self.options.clone()))
    }

    /// Signs and sends a request. A response with an unexpected status is a failure.
    pub(super) async fn send(
        &self,
        client: &mut Client,
        request: S3Request<'_>,
        body: Body<'_>,
    ) -> Response {
        self.receive(client, request, body, None).await
    }

    /// Reads an object, and compares it as it arrives.
    pub(super) async fn get(
        &self,
        client: &mut Client,
        key: &str,
        comparison: &mut Comparison<'_>,
    ) -> Response {
        let request = S3Request::Get(key);
        self.receive(client, request, Body::Empty, Some(comparison))
            .await
    }

    async fn receive(
        &self,
        client: &mut Client,
        request: S3Request<'_>,
        body: Body<'_>,
        comparison: Option<&mut Comparison<'_>>,
    ) -> Response {
        if matches!(request, S3Request::Put(_) | S3Request::Create(_)) {
            self.writes.fetch_add(1, Ordering::Relaxed);
        }
        let keys = match self.keys.get() {
            Some(keys) => Some(keys.now().await),
            None => None,
        };
        let url = self.sign(request, keys.as_deref());
        let headers = [CONDITION];
        let http_request = Request {
            headers: match request {
                S3Request::Create(_) => &headers,
                _ => &[],
            },
            keep: match request {
                S3Request::List(_) => Keep::All,
                // The start of an error document has its code.
                _ => Keep::Start,
            },
            ..Request::new(request.method(), &url[Position::BeforePath..]).body(body)
        };
        let mut response = match comparison {
            None => client.send(&http_request).await,
            Some(comparison) => {
                let mut reader = |_: &Headers, piece: &[u8]| comparison.read(piece);
                client.stream(&http_request, &mut reader).await
            }
        };
        if response.exchange.outcome.is_ok() && !request.expected().contains(&response.status) {
            response.exchange.outcome = Err(unexpected(request, &response));
        }
        response
    }

    /// Returns the number of requests so far that write an object.
    pub(super) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    fn sign(&self, request: S3Request<'_>, key: Option<&Credentials>) -> Url {
        let bucket = &self.bucket;
        let anonymous = Credentials::new("", "");
        let named = key.unwrap_or(&anonymous);
        match request {
            S3Request::Put(object) => bucket.put_object(key, object).sign(VALID),
            S3Request::Create(object) => {
                let mut put = bucket.put_object(key, object);
                put.headers_mut().insert(CONDITION.0, CONDITION.1);
                put.sign(VALID)
            }
            S3Request::Get(object) => bucket.get_object(key, object).sign(VALID),
            S3Request::Head(object) | S3Request::Gone(object) => {
                bucket.head_object(key, object).sign(VALID)
            }
            S3Request::Delete(object) => bucket.delete_object(key, object).sign(VALID),
            S3Request::List(prefix) => {
                let mut list = bucket.list_objects_v2(key);
                list.with_prefix(prefix);
                list.sign(VALID)
            }
            S3Request::HeadBucket => bucket.head_bucket(key).sign(VALID),
            S3Request::CreateBucket => bucket.create_bucket(named).sign(VALID),
            S3Request::DeleteBucket => bucket.delete_bucket(named).sign(VALID),
        }
    }
}

/// Describes an unexpected response: the status, and S3's own code.
fn unexpected(request: S3Request<'_>, response: &Response) -> Failure {
    let code = error_code(&response.body).unwrap_or_default();
    let method = request.method();
    let status = response.status;
    let detail = format!("{status} {code}");
    Failure::new(
        kind::STATUS,
        format!("{} in response to {method}", detail.trim_end()),
    )
}

/// Returns S3's code from an error document, or `None` if `body` is not an error document.
pub(super) fn error_code(body: &[u8]) -> Option<String> {
    let body = String::from_utf8_lossy(body);
    let (_, error) = body.split_once("<Error")?;
    let code = error
        .split_once("<Code>")
        .and_then(|(_, rest)| rest.split_once("</Code>"));
    Some(code.map_or("without a code", |(code, _)| code).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(endpoints: &[&str]) -> S3Options {
        S3Options {
            endpoint: endpoints.iter().map(|url| (*url).to_owned()).collect(),
            access_key: vec!["key".into()],
            secret_key: vec!["secret".into()],
            ..S3Options::default()
        }
    }

    #[test]
    fn stores_have_names() {
        let stores = Store::all(&options(&[
            "http://127.0.0.1:9000",
            "b=https://s3.example/x",
        ]));
        let names: Vec<_> = stores.unwrap().into_iter().map(|s| s.name).collect();
        assert_eq!(names, ["127.0.0.1:9000", "b"]);
        assert!(Store::all(&options(&["http://h/a", "http://h/b"])).is_err());
    }

    #[test]
    fn what_cannot_work_is_refused() {
        for endpoints in [&[][..], &["no url"], &["ftp://h/"]] {
            assert!(Store::all(&options(endpoints)).is_err(), "{endpoints:?}");
        }
        let mut options = options(&["http://127.0.0.1/"]);
        options.style = AddressingStyle::Virtual;
        assert!(
            Store::all(&options).is_err(),
            "an address has no subdomains"
        );
        options.style = AddressingStyle::Path;
        options.access_key = vec!["a".into(), "b".into()];
        assert!(Store::all(&options).is_err());
    }

    #[test]
    fn either_style_is_signed() {
        let mut options = options(&["https://s3.example/"]);
        let url = |options: &S3Options| {
            let store = &Store::all(options).unwrap()[0];
            let keys = Credentials::new("key", "secret");
            store
                .sign(S3Request::Create("a/b c"), Some(&keys))
                .to_string()
        };
        let path = url(&options);
        assert!(path.starts_with("https://s3.example/lucarne-load/a/b%20c?X-Amz-"));
        assert!(
            path.contains("SignedHeaders=host%3Bif-none-match"),
            "{path}"
        );
        options.style = AddressingStyle::Virtual;
        assert!(url(&options).starts_with("https://lucarne-load.s3.example/a/b%20c?"));
    }
}
