use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    Client, Launch, Server,
    service::{Service, Upstream, xml_error},
    stores::{FAKE_GCS, START_TIMEOUT, Shared, loopback, tool},
};

/// fake-gcs-server on loopback, in memory, behind a double for its missing features.
///
/// The server supports Google's JSON API. From the XML API, which `object_store` uses, the server
/// supports only reading and deleting. The double translates the other requests as the
/// documentation of the XML API describes:
///
/// - Uploads with `x-goog-if-generation-match`, which get 412 if the generation differs. The server
///   itself compares generations under its write lock (`ifGenerationMatch` of the JSON API).
/// - Listings in pages, with `start-after`.
/// - Buckets that do not exist: 404 instead of 500.
///
/// Neither the server nor the double checks credentials, or enforces the limit of one write per
/// second for each object.
#[derive(Debug)]
pub struct GcsServer {
    /// URL of the double: `http://127.0.0.1:port`.
    pub endpoint: String,
    /// URL of the server alone.
    pub bare_endpoint: String,
    next: AtomicU64,
    _double: Service,
    _server: Server,
}

impl GcsServer {
    /// Starts the server and the double.
    ///
    /// # Errors
    /// If the server is not installed or does not start: the message has the remedy.
    pub fn start() -> Result<Self> {
        let address = loopback();
        let launch = Launch::new(tool(FAKE_GCS)?)
            .args(["-scheme", "http", "-backend", "memory"])
            .args(["-host", "127.0.0.1", "-port", &address.port().to_string()])
            .args(["-public-host", "127.0.0.1", "-log-level", "error"]);
        let server = launch.patience(START_TIMEOUT).start(address)?;
        let double = Double::new(address);
        let double = Service::start(move |request| {
            let double = double.clone();
            async move { double.answer(request).await }
        })?;
        Ok(Self {
            endpoint: format!("http://{}", double.address),
            bare_endpoint: format!("http://{address}"),
            next: AtomicU64::new(1),
            _double: double,
            _server: server,
        })
    }

    /// Returns a server that the tests of a process share while any of them uses it.
    ///
    /// # Errors
    /// The errors of [`start`](Self::start).
    pub fn shared() -> Result<Arc<Self>> {
        static SHARED: Shared<GcsServer> = Shared::new();
        SHARED.get(Self::start)
    }

    /// Creates an empty bucket and returns its name.
    ///
    /// # Errors
    /// The error of the server.
    pub async fn new_bucket(&self) -> Result<String> {
        let name = format!("bucket-{}", self.next.fetch_add(1, Relaxed));
        self.make_bucket(&name).await?;
        Ok(name)
    }

    /// Creates an empty bucket with this name.
    ///
    /// # Errors
    /// The error of the server.
    pub async fn make_bucket(&self, name: &str) -> Result<()> {
        let client = Client::new(self.bare_endpoint.clone());
        let body = json!({ "name": name }).to_string();
        let answer = client.post("storage/v1/b?project=test", body).await?;
        answer.ok().context("cannot create a bucket")?;
        Ok(())
    }
}

/// Number of names in a page of a listing.
const PAGE: usize = 1000;

#[derive(Clone)]
struct Double {
    server: Upstream,
}

impl Double {
    fn new(server: SocketAddr) -> Self {
        let server = Upstream::new(server);
        Self { server }
    }

    async fn answer(&self, request: Request<Bytes>) -> Option<Response<Bytes>> {
        let path = request.uri().path().trim_start_matches('/').to_owned();
        match (request.method(), path.split_once('/')) {
            (&Method::PUT, Some((bucket, object))) => {
                let answer = self.upload(bucket, &decoded(object), &request).await;
                Some(answer.unwrap_or_else(|error| {
                    let mut answer = Response::new(Bytes::from(format!("{error:#}")));
                    *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                    answer
                }))
            }
            (&Method::GET, None) => self.list(&path, &request).await,
            _ => self.server.pass(request).await,
        }
    }

    /// Translates an upload of the XML API into an upload of the JSON API, and sends it.
    async fn upload(
        &self,
        bucket: &str,
        object: &str,
        request: &Request<Bytes>,
    ) -> Result<Response<Bytes>> {
        let mut uri = format!("/upload/storage/v1/b/{bucket}/o?uploadType=multipart");
        if let Some(generation) = text(request.headers(), "x-goog-if-generation-match") {
            uri += &format!("&ifGenerationMatch={generation}");
        }
        let boundary = format!("{:032x}", rand::random::<u128>());
        let upload = Request::post(uri)
            .header(
                header::CONTENT_TYPE,
                format!("multipart/related; boundary={boundary}"),
            )
            .body(multipart(&boundary, object, request))?;
        let answer = self
            .server
            .pass(upload)
            .await
            .context("the server sent no response")?;
        let xml = |status, code| {
            let message = String::from_utf8_lossy(answer.body());
            xml_error(status, code, &message.replace(['<', '&'], " "))
        };
        let answer = match answer.status().as_u16() {
            200 => Some(stored(&serde_json::from_slice(answer.body())?)?),
            404 => xml(404, "NoSuchBucket"),
            412 => xml(412, "PreconditionFailed"),
            other => xml(other, "Other"),
        };
        answer.context("the server sent no response")
    }

    /// Returns a page of a listing, selected from the full listing of the server.
    async fn list(&self, bucket: &str, request: &Request<Bytes>) -> Option<Response<Bytes>> {
        let query = request.uri().query().unwrap_or_default().as_bytes();
        let query = |name: &str| {
            let mut pairs = url::form_urlencoded::parse(query);
            pairs.find_map(|(key, value)| (key == name).then(|| value.into_owned()))
        };
        let prefix = query("prefix").unwrap_or_default();
        let prefix: String = url::form_urlencoded::byte_serialize(prefix.as_bytes()).collect();
        let all = format!("/{bucket}?prefix={prefix}");
        let all = Request::get(all).header(header::HOST, "127.0.0.1");
        let answer = self.server.pass(all.body(Bytes::new()).ok()?).await?;
        let listed = String::from_utf8_lossy(answer.body()).into_owned();
        if listed.contains("no bucket named") {
            let message = "The specified bucket does not exist.";
            return xml_error(404, "NoSuchBucket", message);
        }
        let after = query("continuation-token").or_else(|| query("start-after"));
        let most = query("max-keys").and_then(|most| most.parse().ok());
        let page = page(&listed, after.as_deref(), most.unwrap_or(PAGE));
        Some(Response::new(page.into()))
    }
}

/// Returns the entries after a name, and the start of the next page.
fn page(listed: &str, after: Option<&str>, most: usize) -> String {
    let mut entries: Vec<(&str, &str)> = listed
        .split("<Contents>")
        .skip(1)
        .filter_map(|entry| {
            let entry = entry.split_once("</Contents>")?.0;
            let name = entry.split_once("<Key>")?.1.split_once("</Key>")?.0;
            Some((name, entry))
        })
        .filter(|(name, _)| after.is_none_or(|after| *name > after))
        .collect();
    entries.sort_unstable();
    let more = entries.len() > most;
    entries.truncate(most);
    let mut page = format!("<ListBucketResult><IsTruncated>{more}</IsTruncated>");
    if let Some((last, _)) = entries.last().filter(|_| more) {
        page += &format!("<NextContinuationToken>{last}</NextContinuationToken>");
    }
    for (_, entry) in entries {
        page += &format!("<Contents>{entry}</Contents>");
    }
    page + "</ListBucketResult>"
}

/// Returns a multipart body: metadata, then the object.
fn multipart(boundary: &str, object: &str, request: &Request<Bytes>) -> Bytes {
    let headers = request.headers();
    let content_type = text(headers, "content-type").unwrap_or("application/octet-stream");
    let metadata: serde_json::Map<String, Value> = headers
        .iter()
        .filter_map(|(name, value)| {
            let name = name.as_str().strip_prefix("x-goog-meta-")?;
            Some((name.to_owned(), value.to_str().ok()?.into()))
        })
        .collect();
    let metadata = json!({
        "name": object,
        "contentType": content_type,
        "cacheControl": text(headers, "cache-control"),
        "contentEncoding": text(headers, "content-encoding"),
        "metadata": metadata,
    });
    let mut body = format!(
        "--{boundary}\r\ncontent-type: application/json\r\n\r\n{metadata}\r\n\
         --{boundary}\r\ncontent-type: {content_type}\r\n\r\n"
    )
    .into_bytes();
    body.extend_from_slice(request.body());
    body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    body.into()
}

/// Returns the response of the XML API to an upload.
fn stored(object: &Value) -> Result<Response<Bytes>> {
    let field = |name: &str| object[name].as_str().map(str::to_owned);
    let generation = field("generation").context("the response has no generation")?;
    let e_tag = field("etag").context("the response has no e-tag")?;
    ensure!(
        generation != "0",
        "the response has no generation: {object}"
    );
    Ok(Response::builder()
        .header(header::ETAG, format!("{e_tag:?}"))
        .header("x-goog-generation", generation)
        .body(Bytes::new())?)
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Decodes percent-encoding. `+` does not mean a space, unlike in a query.
fn decoded(path: &str) -> String {
    let path = path.replace('+', "%2B");
    let pairs = url::form_urlencoded::parse(path.as_bytes());
    pairs.map(|(name, _)| name.into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_come_in_pages() {
        let listed: String = ["c", "a", "b"]
            .map(|name| format!("<Contents><Key>{name}</Key></Contents>"))
            .concat();
        let first = page(&listed, None, 2);
        assert!(first.contains("<Key>a</Key>") && first.contains("<Key>b</Key>"));
        assert!(first.contains("<NextContinuationToken>b<") && !first.contains("<Key>c"));
        let last = page(&listed, Some("b"), 2);
        assert!(last.contains("<Key>c</Key>") && last.contains("<IsTruncated>false<"));
        assert!(!last.contains("<Key>b"));
    }

    #[tokio::test]
    async fn of_many_who_create_one_wins() {
        let server = GcsServer::start().unwrap();
        let bucket = server.new_bucket().await.unwrap();
        let client = Client::new(server.endpoint.clone());
        let put = async |generation: &str, body: &'static str| {
            let condition = [("x-goog-if-generation-match", generation)];
            let path = format!("{bucket}/a%2Fb");
            let body = Bytes::from(body);
            let answer = client.request(Method::PUT, &path, &condition, body);
            answer.await.unwrap()
        };
        let created = put("0", "one").await;
        assert_eq!(created.status, 200, "{}", created.text());
        let generation = created.header("x-goog-generation").to_owned();
        let again = put("0", "two").await;
        assert_eq!(again.status, 412, "{}", again.text());
        let early = put("7", "two").await;
        assert_eq!(early.status, 412, "{}", early.text());
        let (a, b) = tokio::join!(put(&generation, "three"), put(&generation, "four"));
        let mut statuses = [a.status.as_u16(), b.status.as_u16()];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412]);
    }
}
