//! An object store with one fault, which responds with success.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Fault of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// Ignores conditions, and changes byte 50 of an object.
    Bytes,
    /// Damages one of 50 objects that were written during the run, but none of the first 40.
    DamagesSome,
    /// Omits the last byte of one GET in 150.
    RarelyShort,
    /// Responds to a PUT during the run with an error document and status 200.
    ErrorDocument,
    /// Acknowledges a PUT during the run without storing it.
    Forgets,
    /// Acknowledges DELETE without deleting.
    KeepsDeleted,
    /// Responds to a conditional PUT with 501.
    NoConditions,
    /// Sends another ETag for HEAD and GET than for PUT.
    OtherTag,
    /// Sends the same ETag for all objects.
    OneTag,
    /// Sends no ETag.
    NoTag,
    /// Lists the objects of other clients, too.
    ListsOthers,
    /// Lists objects that were never written.
    ListsInvented,
    /// Omits objects from a list.
    HidesObjects,
    /// Lists objects that were deleted.
    ListsDeleted,
}

/// An object in the bucket that is not the run's.
const OTHERS: &str = "accounts/2026.csv";

struct Objects {
    lie: Lie,
    gets: u64,
    lists: u64,
    /// Names in the first list.
    listed: Vec<String>,
    by_key: BTreeMap<String, Bytes>,
}

pub(crate) struct Liar {
    pub(crate) address: SocketAddr,
    objects: Arc<Mutex<Objects>>,
    _runtime: tokio::runtime::Runtime,
}

impl Liar {
    pub(crate) fn start(lie: Lie) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let objects = Arc::new(Mutex::new(Objects {
            lie,
            gets: 0,
            lists: 0,
            listed: Vec::new(),
            by_key: [(OTHERS.to_owned(), Bytes::new())].into(),
        }));
        let shared = objects.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let objects = shared.clone();
                let service = service_fn(move |request| respond(request, objects.clone()));
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        Self {
            address,
            objects,
            _runtime: runtime,
        }
    }

    /// Returns whether only the object of another client is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.lock().unwrap().by_key.keys().eq([OTHERS])
    }

    /// Returns whether the object of another client still exists.
    pub(crate) fn keeps_others(&self) -> bool {
        self.objects.lock().unwrap().by_key.contains_key(OTHERS)
    }
}

async fn respond(
    request: Request<Incoming>,
    objects: Arc<Mutex<Objects>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let method = request.method().clone();
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let (_, key) = path.split_once('/').unwrap_or_default();
    let conditional = request.headers().contains_key(header::IF_NONE_MATCH);
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let mut objects = objects.lock().unwrap();
    Ok(match (method, key) {
        (Method::GET, "") => whole(objects.list().into()),
        (_, "") => whole(Bytes::new()),
        (Method::PUT, _) if conditional && objects.lie == Lie::NoConditions => {
            let mut refused = whole("<Error><Code>NotImplemented</Code></Error>".into());
            *refused.status_mut() = StatusCode::NOT_IMPLEMENTED;
            refused
        }
        (Method::PUT, key) => objects.put(key, body),
        (Method::DELETE, key) => {
            if objects.lie != Lie::KeepsDeleted || !key.contains("/delete-") {
                objects.by_key.remove(key);
            }
            whole(Bytes::new())
        }
        (_, key) => objects.get(key),
    })
}

impl Objects {
    fn list(&mut self) -> String {
        let own = self.by_key.keys().filter(|key| *key != OTHERS);
        let mut keys: Vec<String> = own.cloned().collect();
        self.lists += 1;
        match self.lie {
            Lie::ListsOthers => keys.push(OTHERS.to_owned()),
            Lie::ListsInvented => {
                let known = keys.first().or(self.listed.first()).cloned();
                keys.push(format!("{}-{}", known.unwrap(), self.lists));
            }
            Lie::HidesObjects if self.lists > 1 => keys.clear(),
            Lie::HidesObjects => keys.truncate(1),
            Lie::ListsDeleted if self.lists > 1 => keys = self.listed.clone(),
            _ => {}
        }
        if self.lists == 1 {
            self.listed = keys.clone();
        }
        let entry = |key: &String| format!("<Contents><Key>{key}</Key></Contents>");
        let entries: String = keys.iter().map(entry).collect();
        format!(
            "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{entries}</ListBucketResult>"
        )
    }

    fn put(&mut self, key: &str, body: Bytes) -> Response<Full<Bytes>> {
        let during_the_run = key.contains("/put-");
        match self.lie {
            Lie::ErrorDocument if during_the_run => {
                return whole("<Error><Code>InternalError</Code></Error>".into());
            }
            Lie::Forgets if during_the_run => {}
            _ => _ = self.by_key.insert(key.to_owned(), body.clone()),
        }
        self.tagged(Bytes::new(), &body, "")
    }

    fn get(&mut self, key: &str) -> Response<Full<Bytes>> {
        let Some(object) = self.by_key.get(key).cloned() else {
            let mut missing = whole("<Error><Code>NoSuchKey</Code></Error>".into());
            *missing.status_mut() = StatusCode::NOT_FOUND;
            return missing;
        };
        self.gets += 1;
        let mut bytes = object.to_vec();
        match self.lie {
            Lie::Bytes => bytes
                .iter_mut()
                .skip(50)
                .take(1)
                .for_each(|byte| *byte ^= 1),
            Lie::DamagesSome if key.contains("/put-") => {
                let (_, number) = key.rsplit_once('-').unwrap();
                if u64::from_str_radix(number, 16).unwrap() % 50 == 40 {
                    bytes[0] ^= 1;
                }
            }
            Lie::RarelyShort if self.gets.is_multiple_of(150) => _ = bytes.pop(),
            _ => {}
        }
        let more = match self.lie {
            Lie::OtherTag => "-2",
            _ => "",
        };
        self.tagged(bytes.into(), &object, more)
    }

    /// Responds with `body`, and with the ETag of `object`, to which `more` is appended.
    fn tagged(&self, body: Bytes, object: &Bytes, more: &str) -> Response<Full<Bytes>> {
        let mut hasher = DefaultHasher::new();
        if self.lie != Lie::OneTag {
            object.hash(&mut hasher);
        }
        let tag = format!("\"{:016x}{more}\"", hasher.finish());
        let mut response = whole(body);
        if self.lie != Lie::NoTag {
            let tag = HeaderValue::from_str(&tag).unwrap();
            response.headers_mut().insert(header::ETAG, tag);
        }
        response
    }
}

fn whole(body: Bytes) -> Response<Full<Bytes>> {
    Response::new(Full::new(body))
}
