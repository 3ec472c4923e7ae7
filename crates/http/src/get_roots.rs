//! `get-roots` (RFC 6962, section 4.7), encoded and compressed once per change of the roots.

use std::io::Write;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, HeaderMap};
use http::{HeaderValue, Method};
use lucarne_log::Log;

use crate::encoding::{AcceptedCodings, ContentCoding};
use crate::etag;
use crate::reply::{Representation, Response, value};

/// The cached response for the current roots.
#[derive(Default)]
pub(crate) struct GetRoots(ArcSwapOption<Packed>);

struct Packed {
    json: Bytes,
    etag: HeaderValue,
    gzip: Option<(Bytes, HeaderValue)>,
}

impl Packed {
    fn of(json: Bytes) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let packed = encoder.write_all(&json).and_then(|()| encoder.finish());
        // Writing to memory never fails; otherwise the uncompressed response is sent.
        let gzip = packed.ok().map(|gzip| {
            let etag = etag::of_bytes(&gzip);
            (gzip.into(), etag)
        });
        Packed {
            etag: etag::of_bytes(&json),
            json,
            gzip,
        }
    }
}

impl GetRoots {
    /// Responds in gzip only if the client accepts gzip in `Accept-Encoding`: other clients of RFC
    /// 6962 may not support gzip.
    pub(crate) async fn respond(&self, log: &Log, method: &Method, asked: HeaderMap) -> Response {
        let packed = self.packed(log.roots().get_roots_json()).await;
        let accepts = asked.get(ACCEPT_ENCODING).is_some_and(|header| {
            let order = AcceptedCodings::parse(Some(header.as_bytes())).order();
            let mut known = order.into_iter().flatten();
            known.find(|coding| *coding != ContentCoding::Zstd) == Some(ContentCoding::Gzip)
        });
        let (bytes, etag, encoding) = match &packed.gzip {
            Some((gzip, etag)) if accepts => (gzip, etag, Some(&value::GZIP)),
            _ => (&packed.json, &packed.etag, None),
        };
        let representation = Representation {
            bytes: bytes.clone(),
            file: None,
            content_type: &value::JSON,
            cache: &value::MINUTE,
            etag,
            encoding,
            varies: true,
        };
        representation.respond(method, asked)
    }

    async fn packed(&self, json: Bytes) -> Arc<Packed> {
        let there = self.0.load_full();
        // Unchanged roots keep their JSON at the same address.
        let same = |packed: &Arc<Packed>| packed.json.as_ptr() == json.as_ptr();
        if let Some(packed) = there.filter(same) {
            return packed;
        }
        let plain = json.clone();
        let packing = tokio::task::spawn_blocking(move || Packed::of(plain)).await;
        let packed = Arc::new(packing.unwrap_or_else(|_| Packed {
            etag: etag::of_bytes(&json),
            json,
            gzip: None,
        }));
        self.0.store(Some(packed.clone()));
        packed
    }
}
