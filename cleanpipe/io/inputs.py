"""TEMPORARY by the lead so that the driver runs; helper-1 replaces it."""
from dataclasses import dataclass
from pathlib import Path
@dataclass(frozen=True)
class Input:
    source: str
    uri: str
    size: int
    stamp: str
def resolve_inputs(inputs, *, source_root=None):
    import glob
    out=[]
    for i in inputs:
        for f in (sorted(glob.glob(i)) if '*' in i else [i]):
            p=Path(f)
            for q in (sorted(x for x in p.rglob('*') if '.warc' in x.name or '.arc' in x.name or '.wet' in x.name) if p.is_dir() else [p]):
                out.append(Input(q.name,str(q),q.stat().st_size,str(q.stat().st_mtime_ns)))
    return sorted(out,key=lambda i:i.source)
