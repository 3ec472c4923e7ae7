//! An object store that answers everything with 200: conditions do not hold, and
//! byte 50 of what it serves is not what it was sent.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

type Objects = Arc<Mutex<BTreeMap<String, Bytes>>>;

pub(crate) struct Liar {
    pub(crate) address: SocketAddr,
    objects: Objects,
    _runtime: tokio::runtime::Runtime,
}

impl Liar {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let objects = Objects::default();
        let shared = objects.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let objects = shared.clone();
                let service = service_fn(move |request| answer(request, objects.clone()));
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

    pub(crate) fn is_empty(&self) -> bool {
        self.objects.lock().unwrap().is_empty()
    }
}

async fn answer(
    request: Request<Incoming>,
    objects: Objects,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let method = request.method().clone();
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let (_, key) = path.split_once('/').unwrap_or_default();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let mut objects = objects.lock().unwrap();
    let mut served = Bytes::new();
    match method {
        Method::PUT => _ = objects.insert(key.to_owned(), body),
        Method::DELETE => _ = objects.remove(key),
        Method::GET if key.is_empty() => {
            let entry = |key: &String| format!("<Contents><Key>{key}</Key></Contents>");
            let entries: String = objects.keys().map(entry).collect();
            served = format!(
                "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{entries}</ListBucketResult>"
            )
            .into();
        }
        Method::GET => {
            let mut bytes = objects.get(key).cloned().unwrap_or_default().to_vec();
            if let Some(byte) = bytes.get_mut(50) {
                *byte ^= 1;
            }
            served = bytes.into();
        }
        _ => {}
    }
    Ok(Response::new(Full::new(served)))
}
