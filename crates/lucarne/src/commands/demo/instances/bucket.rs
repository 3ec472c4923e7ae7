//! Bucket of the demo: the part of S3 that a log uses, stored in a directory and served on
//! loopback.
//!
//! The bucket stands in for a real store, which instances on several machines need. The bucket is
//! not a product. The bucket's name serves as the credential: it is as long as a key, and stored in
//! private files. Puts are conditional and durable as in S3, because the safety of the log depends
//! on both.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use aws_lc_rs::digest;
use bytes::Bytes;
use http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::net::TcpListener;

use super::server::serve;

/// Maximum size of an object in bytes.
const MAX_OBJECT: usize = 64 << 20;
/// Maximum number of objects in a listing, as in S3.
const MAX_LISTED: usize = 1000;
/// Request headers that are stored with an object, besides `x-amz-meta-…`.
const KEPT: [&str; 3] = ["content-type", "content-encoding", "cache-control"];

/// The bucket: the files of its objects, and their metadata.
pub(super) struct Bucket {
    name: String,
    directory: PathBuf,
    /// Objects by key, in the order of S3 listings.
    objects: Mutex<BTreeMap<String, Known>>,
}

#[derive(Clone, Debug)]
struct Known {
    etag: String,
    length: usize,
    headers: Vec<(String, String)>,
    modified: jiff::Timestamp,
}

type BucketResponse = Response<Full<Bytes>>;

impl Bucket {
    /// Opens the bucket in a directory, which is created if necessary.
    pub(super) fn open(name: String, directory: PathBuf) -> Result<Arc<Self>> {
        let place = || format!("cannot open the demo's bucket in {}", directory.display());
        fs::create_dir_all(&directory).with_context(place)?;
        let mut objects = BTreeMap::new();
        for file in fs::read_dir(&directory).with_context(place)? {
            let file = file.with_context(place)?;
            let name = file.file_name().into_string().unwrap_or_default();
            // Names of unfinished files are not hexadecimal.
            let Some(key) = hex::decode(&name)
                .ok()
                .and_then(|it| String::from_utf8(it).ok())
            else {
                continue;
            };
            let (headers, body) = read(&file.path()).with_context(place)?;
            let modified = file.metadata()?.modified()?.try_into()?;
            objects.insert(key, Known::of(&body, headers, modified));
        }
        Ok(Arc::new(Bucket {
            name,
            directory,
            objects: Mutex::new(objects),
        }))
    }

    /// Serves on this socket until the process ends.
    pub(super) async fn serve(self: Arc<Self>, listener: TcpListener) -> Infallible {
        serve(listener, move |request| {
            let bucket = Arc::clone(&self);
            async move { bucket.respond(request).await }
        })
        .await
    }

    async fn respond(self: &Arc<Self>, request: Request<Incoming>) -> BucketResponse {
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, MAX_OBJECT).collect().await else {
            return error(StatusCode::BAD_REQUEST, "EntityTooLarge");
        };
        let (bucket, body) = (Arc::clone(self), body.to_bytes());
        let done = tokio::task::spawn_blocking(move || bucket.done(&head, &body)).await;
        match done {
            Ok(Ok(response)) => response,
            failed => {
                tracing::error!(?failed, "the demo's bucket failed");
                error(StatusCode::INTERNAL_SERVER_ERROR, "InternalError")
            }
        }
    }

    fn done(&self, head: &http::request::Parts, body: &Bytes) -> Result<BucketResponse> {
        let path = head.uri.path().trim_start_matches('/');
        let (name, key) = path.split_once('/').unwrap_or((path, ""));
        if name != self.name {
            return Ok(error(StatusCode::NOT_FOUND, "NoSuchBucket"));
        }
        // Keys of a log contain no characters that a path escapes.
        match (&head.method, key) {
            (&Method::GET, "") => Ok(self.list(head.uri.query().unwrap_or_default())),
            (&Method::POST, "") => self.delete_all(body),
            (&Method::PUT, key) => self.put(key, &head.headers, body),
            (&Method::GET | &Method::HEAD, key) => self.get(key, head.method == Method::HEAD),
            (&Method::DELETE, key) => {
                self.delete(key)?;
                Ok(response(StatusCode::NO_CONTENT, Bytes::new()))
            }
            _ => Ok(error(StatusCode::NOT_IMPLEMENTED, "NotImplemented")),
        }
    }

    /// Stores an object if the conditions of RFC 9110 section 13.1 hold.
    fn put(&self, key: &str, headers: &HeaderMap, body: &Bytes) -> Result<BucketResponse> {
        // Under the lock, a second writer sees the first writer's object.
        let mut objects = self.objects.lock();
        let there = objects.get(key).map(|known| known.etag.as_bytes());
        let fits = match (headers.get(IF_MATCH), headers.get(IF_NONE_MATCH)) {
            (Some(wanted), _) => there == Some(wanted.as_bytes()),
            (None, Some(_)) => there.is_none(),
            (None, None) => true,
        };
        if !fits {
            return Ok(error(StatusCode::PRECONDITION_FAILED, "PreconditionFailed"));
        }
        let kept = headers.iter().filter_map(|(name, value)| {
            let name = name.as_str();
            let is_kept = KEPT.contains(&name) || name.starts_with("x-amz-meta-");
            let value = value.to_str().ok().filter(|_| is_kept)?;
            Some((name.to_owned(), value.to_owned()))
        });
        let known = Known::of(body, kept.collect(), jiff::Timestamp::now());
        write(&self.directory, &self.file(key), &known.headers, body)?;
        let mut put = response(StatusCode::OK, Bytes::new());
        put.headers_mut().insert(ETAG, known.etag.parse()?);
        objects.insert(key.to_owned(), known);
        Ok(put)
    }

    fn get(&self, key: &str, is_head: bool) -> Result<BucketResponse> {
        // The lock prevents replacement during the read.
        let objects = self.objects.lock();
        let Some(known) = objects.get(key).cloned() else {
            return Ok(error(StatusCode::NOT_FOUND, "NoSuchKey"));
        };
        let body = if is_head {
            Bytes::new()
        } else {
            read(&self.file(key))?.1
        };
        drop(objects);
        let mut got = response(StatusCode::OK, body);
        for (name, value) in &known.headers {
            got.headers_mut()
                .insert(HeaderName::try_from(name)?, value.parse()?);
        }
        let modified = known.modified.strftime("%a, %d %b %Y %H:%M:%S GMT");
        let described = [
            ("etag", known.etag),
            ("last-modified", modified.to_string()),
            ("content-length", known.length.to_string()),
        ];
        for (name, value) in described {
            got.headers_mut().insert(name, value.parse()?);
        }
        Ok(got)
    }

    fn delete(&self, key: &str) -> Result<()> {
        let mut objects = self.objects.lock();
        if objects.remove(key).is_some() {
            fs::remove_file(self.file(key))?;
        }
        Ok(())
    }

    fn delete_all(&self, body: &[u8]) -> Result<BucketResponse> {
        let request = std::str::from_utf8(body)?;
        let mut xml = String::from("<DeleteResult>");
        for part in request.split("<Key>").skip(1) {
            let key = part.split("</Key>").next().unwrap_or_default();
            self.delete(key)?;
            write!(xml, "<Deleted><Key>{key}</Key></Deleted>")?;
        }
        xml += "</DeleteResult>";
        Ok(response(StatusCode::OK, Bytes::from(xml)))
    }

    fn list(&self, query: &str) -> BucketResponse {
        let query: BTreeMap<_, _> = url::form_urlencoded::parse(query.as_bytes()).collect();
        let of = |name: &str| query.get(name).map_or("", |value| value.as_ref());
        let prefix = of("prefix");
        // Keys up to this key are not listed. The token is the last key of the previous page.
        let after = of("start-after").max(of("continuation-token"));
        let objects = self.objects.lock();
        let mut found = objects
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .filter(|(key, _)| key.as_str() > after);
        let (mut xml, mut last) = (String::from("<ListBucketResult>"), "");
        for (key, known) in found.by_ref().take(MAX_LISTED) {
            let Known {
                etag,
                length,
                modified,
                ..
            } = known;
            let etag = etag.replace('"', "&quot;");
            xml += &format!(
                "<Contents><Key>{key}</Key><LastModified>{modified}</LastModified>\
                 <ETag>{etag}</ETag><Size>{length}</Size></Contents>"
            );
            last = key;
        }
        if found.next().is_some() {
            xml += &format!("<NextContinuationToken>{last}</NextContinuationToken>");
        }
        xml += "</ListBucketResult>";
        response(StatusCode::OK, Bytes::from(xml))
    }

    fn file(&self, key: &str) -> PathBuf {
        self.directory.join(hex::encode(key))
    }
}

impl Known {
    fn of(body: &[u8], headers: Vec<(String, String)>, modified: jiff::Timestamp) -> Self {
        let sum = digest::digest(&digest::SHA256, body);
        Known {
            etag: format!("\"{}\"", hex::encode(sum)),
            length: body.len(),
            headers,
            modified,
        }
    }
}

/// Reads the headers (one line of JSON) and the body.
fn read(file: &Path) -> Result<(Vec<(String, String)>, Bytes)> {
    let bytes = Bytes::from(fs::read(file)?);
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let end = end.with_context(|| format!("{} has no line of headers", file.display()))?;
    Ok((
        serde_json::from_slice(&bytes[..end])?,
        bytes.slice(end + 1..),
    ))
}

/// Replaces a file durably.
fn write(directory: &Path, file: &Path, headers: &[(String, String)], body: &[u8]) -> Result<()> {
    let beside = file.with_extension("new");
    let mut writing = fs::File::create(&beside)?;
    serde_json::to_writer(&mut writing, headers)?;
    writing.write_all(b"\n")?;
    writing.write_all(body)?;
    writing.sync_data()?;
    fs::rename(&beside, file)?;
    Ok(fs::File::open(directory)?.sync_all()?)
}

fn response(status: StatusCode, body: Bytes) -> BucketResponse {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response
}

fn error(status: StatusCode, code: &'static str) -> BucketResponse {
    let body = format!("<Error><Code>{code}</Code><Message>{code}</Message></Error>");
    let mut response = response(status, Bytes::from(body));
    let xml = HeaderValue::from_static("application/xml");
    response.headers_mut().insert("content-type", xml);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns status, body and entity tag of the response.
    fn ask(
        bucket: &Bucket,
        request: http::request::Builder,
        body: &'static str,
    ) -> (u16, String, String) {
        let (head, ()) = request.body(()).unwrap().into_parts();
        let response = bucket.done(&head, &Bytes::from(body)).unwrap();
        let tag = response
            .headers()
            .get(ETAG)
            .map(|tag| tag.to_str().unwrap());
        let (status, tag) = (
            response.status().as_u16(),
            tag.unwrap_or_default().to_owned(),
        );
        let body = response.into_body().collect();
        let body = futures_util::FutureExt::now_or_never(body).unwrap();
        let body = body.unwrap().to_bytes().to_vec();
        (status, String::from_utf8(body).unwrap(), tag)
    }

    #[test]
    fn puts_are_conditional_and_stay() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Bucket::open("name".into(), directory.path().to_owned()).unwrap();
        let bucket = open();
        let put = || Request::put("/name/a/b");
        let (status, _, first) = ask(&bucket, put().header(IF_NONE_MATCH, "*"), "one");
        assert_eq!(status, 200);
        assert_eq!(ask(&bucket, put().header(IF_NONE_MATCH, "*"), "two").0, 412);
        assert_eq!(ask(&bucket, put().header(IF_MATCH, &first), "two").0, 200);
        assert_eq!(ask(&bucket, put().header(IF_MATCH, &first), "three").0, 412);
        let absent = Request::put("/name/c").header(IF_MATCH, &first);
        assert_eq!(ask(&bucket, absent, "three").0, 412);
        assert_eq!(ask(&bucket, Request::get("/other/a/b"), "").0, 404);
        // Headers and bytes are stored unchanged, also after the bucket is opened again.
        let with = put().header("x-amz-meta-writer", "me");
        let (_, _, tag) = ask(&bucket, with, "two\nlines");
        let again = open();
        let got = ask(&again, Request::get("/name/a/b"), "");
        assert_eq!(got, (200, "two\nlines".into(), tag));
        assert_eq!(again.objects.lock()["a/b"].headers[0].1, "me");
        assert_eq!(ask(&again, Request::delete("/name/a/b"), "").0, 204);
        assert_eq!(ask(&open(), Request::get("/name/a/b"), "").0, 404);
    }

    #[test]
    fn lists_have_a_prefix_a_beginning_and_an_end() {
        let directory = tempfile::tempdir().unwrap();
        let bucket = Bucket::open("name".into(), directory.path().to_owned()).unwrap();
        for number in 0..3 {
            ask(&bucket, Request::put(format!("/name/a/{number}")), "");
        }
        ask(&bucket, Request::put("/name/b"), "");
        let keys = |query: &str| {
            let (_, xml, _) = ask(&bucket, Request::get(format!("/name?{query}")), "");
            let keys = xml.split("<Key>").skip(1);
            let keys = keys.map(|part| part.split('<').next().unwrap().to_owned());
            keys.collect::<Vec<_>>()
        };
        assert_eq!(keys("list-type=2&prefix=a/"), ["a/0", "a/1", "a/2"]);
        assert_eq!(
            keys("list-type=2&prefix=a%2F&start-after=a/0"),
            ["a/1", "a/2"]
        );
        assert_eq!(keys("list-type=2&continuation-token=a/2"), ["b"]);
        let some = "<Delete><Object><Key>a/0</Key></Object><Object><Key>b</Key></Object></Delete>";
        assert_eq!(ask(&bucket, Request::post("/name?delete"), some).0, 200);
        assert_eq!(keys("list-type=2"), ["a/1", "a/2"]);
    }
}
