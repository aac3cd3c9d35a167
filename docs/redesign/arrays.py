"""One arrays.py instead of 150 aliases; run from the project's root."""
import re, pathlib, ast
SRC=pathlib.Path('src/sfumato')
(SRC/'arrays.py').write_text('''"""The three kinds of NumPy array that every module uses, named once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
''')
KIND={'np.int64':'IntArray','np.float64':'FloatArray','np.bool_':'BoolArray'}
PLAIN={'Ints','Integers','Reals','Floats','Bools'}
alias_line=re.compile(r'^( *)([A-Za-z_]+)(: TypeAlias)? = NDArray\[(np\.(?:int64|float64|bool_))\]\n(?: *"""[^\n]*"""\n)?',re.M)
files=[p for p in SRC.rglob('*.py') if p.name!='arrays.py']
homes={}  # module -> {alias: new}
for p in files:
    for m in alias_line.finditer(p.read_text()):
        if m.group(2) in PLAIN:
            mod='sfumato.'+'.'.join(p.relative_to(SRC).with_suffix('').parts).replace('.__init__','')
            homes.setdefault(mod,{})[m.group(2)]=KIND[m.group(4)]
for p in [*files,*pathlib.Path('tests').rglob('*.py'),*pathlib.Path('bench').rglob('*.py')]:
    t=o=p.read_text()
    insrc=p.is_relative_to(SRC)
    mod='sfumato.'+'.'.join(p.relative_to(SRC).with_suffix('').parts).replace('.__init__','') if insrc else ''
    names=dict(homes.get(mod,{}))
    # imports of aliases from other modules
    def fix(m):
        keep=[]
        for item in re.split(r',\s*',m.group(3).strip().strip('()').strip().strip(',')):
            item=item.strip()
            base=item.split(' as ')[0]
            if item and base in homes.get(m.group(2),{}):
                names[item.split(' as ')[-1]]=homes[m.group(2)][base]
            elif item: keep.append(item)
        return f'{m.group(1)}from {m.group(2)} import {", ".join(keep)}' if keep else f'{m.group(1)}pass  # gone'
    t=re.sub(r'^( *)from (sfumato[\w.]*) import (\([^)]*\)|[^\n#]*)(?=\s*(?:#|$|\n))',lambda m: fix(m) if m.group(2) in homes and any(re.search(rf'\b{a}\b',m.group(3)) for a in homes[m.group(2)]) else m.group(0),t,flags=re.M)
    t=re.sub(r'^ *pass  # gone\n','',t,flags=re.M)
    if insrc: t=alias_line.sub(lambda m: '' if m.group(2) in PLAIN else m.group(0),t)
    for a,b in names.items(): t=re.sub(rf'(?<![\w.]){a}(?![\w=])',b,t)
    if insrc:
        for k,b in KIND.items():
            t=re.sub(rf'(?<!= )NDArray\[{re.escape(k)}\]',b,t)
    if t==o: continue
    used=sorted({b for b in KIND.values() if re.search(rf'\b{b}\b',t)})
    if not used: p.write_text(t); continue
    line='from sfumato.arrays import '+', '.join(used)
    m=re.search(r'^if TYPE_CHECKING:\n',t,re.M)
    if m and 'from __future__ import annotations' in t:
        t=t[:m.end()]+'    '+line+'\n'+t[m.end():]
    else:
        m=re.search(r'^from __future__ import annotations\n',t,re.M)
        t=t[:m.end()]+'\n'+line+'\n'+t[m.end():]
    p.write_text(t)
f=pathlib.Path('docs/guide/floors.py'); s=f.read_text()
f.write_text(s.replace('*("errors", "arguments", "exact_numbers", "text", "filesystem"),\n            *("write_journal", "platform_support"),','*("errors", "arguments", "arrays", "exact_numbers", "text"),\n            *("filesystem", "write_journal", "platform_support"),'))
