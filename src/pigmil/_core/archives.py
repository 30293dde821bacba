"""Members of zip archives, read without trust in the sizes that the archive states."""

import zipfile


def read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return the content of a member; never unpack more than its stated size.

    ``ZipFile.read`` unpacks up to 2 GB at once before it compares with the stated size.

    Parameters
    ----------
    archive : ZipFile
        An open archive.
    member : ZipInfo
        One of its members; check ``file_size`` before.

    Examples
    --------
    >>> import io
    >>> with zipfile.ZipFile(io.BytesIO(), "w") as archive:
    ...     archive.writestr("a", b"abc")
    ...     read_member(archive, archive.getinfo("a"))
    b'abc'
    """
    with archive.open(member) as file:
        content = file.read(member.file_size)
    if len(content) != member.file_size:
        raise zipfile.BadZipFile(f"member {member.filename[:80]!r} ends early")
    return content
