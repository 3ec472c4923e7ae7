//! `add-entries`: the body is decoded and verified package by package.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use lucarne_cosign::mirror::upload::{MirrorInfo, UploadReader};
use lucarne_cosign::mirror::{Upload, Uploaded};
use lucarne_x509::now_ms;
use tokio::time::{Instant, timeout_at};

use super::{
    Arc, Client, ErrorResponse, HeaderMap, HeaderValue, Incoming, MirrorService, Request, Response,
    StatusCode, UploadRefusal, is_octets, value,
};
use crate::budget::{Exhausted, Reservation};
use crate::cosigner::cosigned;
use crate::limits::Limits;
use crate::reply::plain;
use crate::submission;

/// Maximum time of an upload. After that, its stored packages stay, and the client continues.
const LONGEST: Duration = Duration::from_secs(5 * 60);

/// Number of compressed bytes that are decompressed at once: at most a MiB when decompressed.
const PIECE: usize = 1 << 10;

/// Responds to `add-entries`.
pub(super) async fn respond(
    service: &MirrorService,
    request: Request<'_>,
    body: Incoming,
) -> Response {
    let body = Body::new(&request.headers, body, request.client, request.limits);
    let mut response = match body {
        Ok(mut body) => service.upload(&mut body).await,
        Err(error) => error.into_response(),
    };
    let accepted = HeaderValue::from_static("gzip");
    response.headers_mut().insert(ACCEPT_ENCODING, accepted);
    response
}

impl MirrorService {
    async fn upload(&self, body: &mut Body) -> Response {
        let head = loop {
            match body.reader.head() {
                Ok(Some(head)) => break head,
                Ok(None) => {}
                Err(error) => return self.refused(error.into()),
            }
            match body.read().await {
                Ok(true) => {}
                Ok(false) => return self.refused(UploadRefusal::Empty),
                Err(error) => return error.into_response(),
            }
        };
        let hash = lucarne_ct::sha256(&[head.origin.as_bytes()]);
        let uploaded = match self.mirror.upload(head).await {
            Ok(upload) => self.packages(upload, body).await,
            Err(error) => Err(error.into()),
        };
        if let Some(log) = self.mirror.logs().get(&hash) {
            match &uploaded {
                Err(Stopped::Refused(refusal)) if refusal.is_failure() => {
                    self.note(log, Some(refusal.to_string()));
                }
                Ok(_) => self.note(log, None),
                Err(_) => {}
            }
        }
        match uploaded {
            Ok(Uploaded::Cosigned(lines)) => cosigned(&lines),
            Ok(Uploaded::Partial(next)) => info(StatusCode::ACCEPTED, &next),
            Err(Stopped::Refused(refusal)) => self.refused(refusal),
            Err(Stopped::Body(error)) => error.into_response(),
        }
    }

    /// Stores the packages until the body ends or fails. After a package, every end of the body is
    /// one that the client may choose.
    async fn packages(&self, mut upload: Upload<'_>, body: &mut Body) -> Result<Uploaded, Stopped> {
        let mut failed = None;
        while let Some(leaves) = upload.next_package() {
            if let Some(package) = body.reader.package(&leaves).map_err(UploadRefusal::from)? {
                upload.add(package).await?;
                body.held.shrink(body.reader.buffered());
                continue;
            }
            match body.read().await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        match (upload.finish(now_ms() / 1000).await, failed) {
            (Err(UploadRefusal::Empty), Some(error)) => Err(Stopped::Body(error)),
            (finished, _) => Ok(finished?),
        }
    }
}

/// The reasons why an upload ended without a result.
enum Stopped {
    Refused(UploadRefusal),
    Body(ErrorResponse),
}

impl From<UploadRefusal> for Stopped {
    fn from(refusal: UploadRefusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The body of an upload, decoded in pieces within the client's budget.
struct Body {
    incoming: Incoming,
    gzip: Option<MultiGzDecoder<Vec<u8>>>,
    /// Received bytes that are not decoded.
    frame: Bytes,
    reader: UploadReader,
    held: Reservation,
    frame_timeout: Duration,
    end: Instant,
}

impl Body {
    fn new(
        headers: &HeaderMap,
        incoming: Incoming,
        client: &Arc<Client>,
        limits: &Limits,
    ) -> Result<Self, ErrorResponse> {
        let refused = |detail: &str| {
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            ErrorResponse::read(status, "bad_upload", detail).and_close()
        };
        if !is_octets(headers) {
            return Err(refused(
                "expected the content type application/octet-stream",
            ));
        }
        let gzip = match headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
            None | Some(b"identity") => None,
            Some(b"gzip" | b"x-gzip") => Some(MultiGzDecoder::new(Vec::new())),
            Some(_) => return Err(refused("expected the content encoding gzip, or none")),
        };
        Ok(Self {
            incoming,
            gzip,
            frame: Bytes::new(),
            reader: UploadReader::default(),
            held: Reservation::nothing(client),
            frame_timeout: limits.body_timeout,
            end: Instant::now() + LONGEST,
        })
    }

    /// Reads and decodes a piece. Returns `false` at the end of the body.
    async fn read(&mut self) -> Result<bool, ErrorResponse> {
        if self.frame.is_empty() {
            let until = self.end.min(Instant::now() + self.frame_timeout);
            let frame = timeout_at(until, submission::next(&mut self.incoming)).await;
            match frame {
                Ok(Ok(Some(frame))) => self.frame = frame,
                Ok(Ok(None)) => return self.finish(),
                Ok(Err(error)) => return Err(error),
                Err(_) => {
                    let detail = "the next package did not arrive in time";
                    let status = StatusCode::REQUEST_TIMEOUT;
                    return Err(ErrorResponse::read(status, "body_timeout", detail).and_close());
                }
            }
        }
        let Some(gzip) = &mut self.gzip else {
            let frame = std::mem::take(&mut self.frame);
            return self.push(&frame);
        };
        let piece = self.frame.split_to(self.frame.len().min(PIECE));
        let decoded = gzip
            .write_all(&piece)
            .map(|()| std::mem::take(gzip.get_mut()));
        self.push(&decoded.map_err(|_| not_gzip())?)
    }

    /// Ends the body. The decoder may have the last bytes.
    fn finish(&mut self) -> Result<bool, ErrorResponse> {
        let Some(mut gzip) = self.gzip.take() else {
            return Ok(false);
        };
        gzip.try_finish().map_err(|_| not_gzip())?;
        let rest = std::mem::take(gzip.get_mut());
        self.push(&rest)
    }

    fn push(&mut self, decoded: &[u8]) -> Result<bool, ErrorResponse> {
        let held = self.reader.buffered() + decoded.len();
        let held = self.held.grow(held);
        held.map_err(|exhausted: Exhausted| ErrorResponse::from(exhausted).and_close())?;
        self.reader.push(decoded);
        Ok(true)
    }
}

fn not_gzip() -> ErrorResponse {
    let detail = "the body is not a gzip stream";
    ErrorResponse::read(StatusCode::BAD_REQUEST, "bad_upload", detail).and_close()
}

/// Responds with the state of the mirror.
pub(super) fn info(status: StatusCode, info: &MirrorInfo) -> Response {
    plain(
        status,
        &value::MIRROR_INFO,
        &value::NO_STORE,
        info.to_string(),
    )
}
