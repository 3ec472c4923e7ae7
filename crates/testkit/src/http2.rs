//! An HTTP/2 server frame by frame, for responses that no library sends.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// A type of frame (RFC 9113, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameType {
    /// DATA: bytes of a body.
    Data = 0,
    /// HEADERS: the head of a request or a response.
    Headers = 1,
    /// RST_STREAM: ends a stream with an error code.
    Reset = 3,
    /// SETTINGS: parameters of the connection.
    Settings = 4,
    /// GOAWAY: announces the end of the connection.
    GoAway = 7,
}

/// The flag of the last frame of a stream.
pub const END_STREAM: u8 = 1;
/// The flag of a header block that no CONTINUATION follows.
pub const END_HEADERS: u8 = 4;
/// The header block `:status: 200` (RFC 7541).
pub const STATUS_200: &[u8] = &[0x88];

/// Returns the bytes of a frame.
pub fn frame(kind: FrameType, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind as u8, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Serves a connection. After the HEADERS frame of each request, the server sends the frames that
/// `respond` returns for the ID of the stream. The server ignores request bodies.
///
/// # Errors
/// If the client ends the connection, or the connection fails.
pub async fn serve_http2<S>(mut stream: S, respond: impl Fn(u32) -> Vec<u8>) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await?;
    let settings = frame(FrameType::Settings, 0, 0, &[]);
    stream.write_all(&settings).await?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).await?;
        if head[3] == FrameType::Headers as u8 {
            let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            stream.write_all(&respond(id)).await?;
        }
        stream.flush().await?;
    }
}
